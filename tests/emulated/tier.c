/* Prints the best tier of kernels that the CPU allows. */
#include "base/cpu.h"

#include <stdio.h>

int main(void)
{
    return puts(pith_cpu_name(pith_cpu_detect())) < 0;
}
