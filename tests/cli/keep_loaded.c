/* Nothing that is loaded is taken out again: so a leak checker that looks at the end of the process
 * can name the library that a block was taken by. Linked into the sanitized programs. */
int dlclose(void *handle);
__attribute__((visibility("default"))) int dlclose(void *handle)
{
    (void)handle;
    return 0;
}
