#include "io/foreign.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

/* Forms of a model that pith does not read, for folders without a config.json: a pattern of the
 * file by which one is known, and its description. The first that fits. */
static const struct {
    const char *pattern, *what;
} forms[] = {
    {"adapter_config.json",
     "an adapter: 'pith convert MODEL --adapter DIR -o OUT' merges it into its model"},
    {"consolidated*.safetensors",
     "Mistral's own form of a model; transformers' convert_mistral_weights_to_hf.py makes"
     " that of Hugging Face of it, which many of its repositories have too"},
    {"consolidated*.pth",
     "Meta's own form of a model; transformers' convert_llama_weights_to_hf.py makes that of"
     " Hugging Face of it"},
    {"params.json", "Mistral's or Meta's own form of a model, without its weights"},
    {"model_index.json", "a pipeline of diffusers, and no language model"},
    {"genai_config.json",
     "a model for ONNX Runtime; pith reads the safetensors that such are made from"},
    {"*.onnx",
     "a model for ONNX Runtime; pith reads the safetensors that such are made from"},
    {"openvino_model.xml",
     "a model for OpenVINO; pith reads the safetensors that such are made from"},
    {"mlc-chat-config.json",
     "a model for MLC; pith reads the safetensors that such are made from"},
    {"*.nemo", "a checkpoint of NeMo's, whose own tools export the form of Hugging Face"},
    {"*.distcp",
     "a checkpoint as torch.distributed shards it; 'accelerate merge-weights' joins it"},
    {"zero_to_fp32.py", "a checkpoint of DeepSpeed's; its zero_to_fp32.py joins it"},
};

/* The first name that fits, or NULL. */
static const char *first(const char *pattern, char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (pith_glob_match(pattern, names[i])) return names[i];
    return NULL;
}

enum pith_status pith_foreign_check(const char *dir, struct pith_error *err)
{
    char **names;
    size_t count;
    PITH_TRY(pith_dir_list(dir, &names, &count, err));
    enum pith_status s = PITH_OK;
    if (!first("config.json", names, count))
        for (size_t i = 0; i < PITH_COUNT(forms) && s == PITH_OK; i++) {
            const char *name = first(forms[i].pattern, names, count);
            if (name)
                s = pith_fail(err, PITH_UNSUPPORTED, "%s: no config.json, but %.80s: %s", dir, name,
                              forms[i].what);
        }
    pith_names_free(names, count);
    return s;
}

enum pith_status pith_foreign_tensor(const char *dir, const char *tensor, struct pith_error *err)
{
    const char *what = "another form of a model";
    for (size_t i = PITH_COUNT(forms); i-- > 0;)
        if (pith_glob_match(forms[i].pattern, "consolidated.safetensors")) what = forms[i].what;
    return pith_fail(err, PITH_UNSUPPORTED, "%s: holds \"%s\", which is of %s", dir, tensor, what);
}
