"""The cases of make_arch.py: tiny configs, one with and one without each option of each architecture."""
VOCAB = 80
BASE = dict(vocab_size=VOCAB, hidden_size=32, intermediate_size=44, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
            bos_token_id=1, eos_token_id=2, pad_token_id=None)
LAYER_NORM = dict(BASE, layer_norm_eps=0.01)
BASE["rms_norm_eps"] = 0.01  # large enough that a norm with another epsilon shows
MOE = dict(num_experts_per_tok=2, num_experts=8, moe_intermediate_size=20)

CASES = []


def case(name, model_type, config, **more):
    assert all(c["name"] != name for c in CASES), name
    CASES.append(dict(name=name, model_type=model_type, config=config, **more))


DROP = object()


def fused(up=(20, 32)):
    """Experts as transformers 5 holds them: gate_up_proj [E, 2I, hidden], down_proj [E, hidden, I]."""
    def turn(names):
        kept, layers = [], []
        for name, shape in names:
            head, dot, tail = name.partition(".mlp.experts.")
            if not dot:
                kept.append((name, shape))
            elif head not in layers:
                layers.append(head)
                kept.append((head + ".mlp.experts.gate_up_proj", [8, 2 * up[0], up[1]]))
                kept.append((head + ".mlp.experts.down_proj", [8, up[1], up[0]]))
        return kept
    return turn


def old_dialect(**changes):
    """The keys of configs written before transformers 5, as most published ones are: rope_theta and
    rope_scaling at the top, torch_dtype."""
    def turn(config):
        c = dict(config)
        rope = dict(c.pop("rope_parameters", None) or {})
        c["rope_theta"] = rope.pop("rope_theta", 10000.0)
        if "partial_rotary_factor" in rope:
            c["partial_rotary_factor"] = rope.pop("partial_rotary_factor")
        kind = rope.pop("rope_type", "default")
        c["rope_scaling"] = None if kind == "default" else {"type": kind, **rope}
        c["torch_dtype"] = c.pop("dtype")
        c["transformers_version"] = "4.46.0"
        c.update(changes)
        return {k: v for k, v in c.items() if v is not DROP}
    return turn


YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "rope_theta": 100.0,
        "beta_fast": 0.5, "beta_slow": 0.25}

# --- what make_golden.py has more of: these show that the two judges agree ----------------------
case("llama", "llama", BASE)
case("mistral", "mistral", dict(BASE, sliding_window=7, head_dim=12))
case("qwen2", "qwen2", dict(BASE, tie_word_embeddings=True))
case("qwen3", "qwen3", dict(BASE, head_dim=12), published=old_dialect(layer_types=DROP))

# --- Qwen3-MoE ---------------------------------------------------------------------------------
Q3M = dict(BASE, **MOE, num_hidden_layers=3, head_dim=12)
case("qwen3_moe", "qwen3_moe", dict(Q3M, norm_topk_prob=True))
case("qwen3_moe_plain", "qwen3_moe",
     dict(Q3M, head_dim=8, norm_topk_prob=False, attention_bias=True, tie_word_embeddings=True,
          decoder_sparse_step=2, mlp_only_layers=[]))
case("qwen3_moe_window", "qwen3_moe",
     dict(Q3M, norm_topk_prob=True, use_sliding_window=True, sliding_window=7, mlp_only_layers=[1],
          rope_parameters=YARN))
case("qwen3_moe_old", "qwen3_moe", dict(Q3M, norm_topk_prob=True), 
     published=old_dialect(num_experts=8, num_local_experts=DROP))

# --- Mixtral -----------------------------------------------------------------------------------
MIX = dict(BASE, num_experts_per_tok=2, num_local_experts=8)
case("mixtral", "mixtral", MIX)
case("mixtral_window", "mixtral", dict(MIX, sliding_window=7, tie_word_embeddings=True, head_dim=12))
case("mixtral_old", "mixtral", dict(MIX, num_experts_per_tok=3), published=old_dialect(head_dim=DROP))

# --- Qwen2-MoE ---------------------------------------------------------------------------------
Q2M = dict(BASE, **MOE, num_hidden_layers=3, shared_expert_intermediate_size=28)
case("qwen2_moe", "qwen2_moe", Q2M)
case("qwen2_moe_plain", "qwen2_moe",
     dict(Q2M, qkv_bias=False, norm_topk_prob=True, tie_word_embeddings=True, mlp_only_layers=[0]))
case("qwen2_moe_window", "qwen2_moe",
     dict(Q2M, use_sliding_window=True, sliding_window=7, max_window_layers=3, decoder_sparse_step=2))
case("qwen2_moe_old", "qwen2_moe", Q2M, published=old_dialect(layer_types=DROP, qkv_bias=DROP))

# --- OLMoE -------------------------------------------------------------------------------------
OLMOE = dict(BASE, num_experts=8, num_experts_per_tok=2, intermediate_size=20)
case("olmoe", "olmoe", dict(OLMOE, num_key_value_heads=4))
case("olmoe_clip", "olmoe", dict(OLMOE, clip_qkv=0.75, norm_topk_prob=True, attention_bias=True,
                                 tie_word_embeddings=True))

# --- Gemma 2 -----------------------------------------------------------------------------------
GEMMA = dict(norms=0, fill=[(r"embed_tokens", [0, 127, 8])])
G2 = dict(BASE, head_dim=12, sliding_window=7, query_pre_attn_scalar=24)
case("gemma2", "gemma2", dict(G2, attn_logit_softcapping=2.0, final_logit_softcapping=3.0), **GEMMA)
case("gemma2_plain", "gemma2",
     dict(G2, attn_logit_softcapping=None, final_logit_softcapping=None, attention_bias=True,
          tie_word_embeddings=False, layer_types=["full_attention"] * 2), **GEMMA)
case("gemma2_old", "gemma2", dict(G2, num_hidden_layers=3),
     published=old_dialect(layer_types=DROP, hidden_act="gelu_pytorch_tanh", cache_implementation="hybrid"),
     **GEMMA)

# --- Gemma 3, text -----------------------------------------------------------------------------
G3 = dict(BASE, head_dim=12, num_hidden_layers=4, sliding_window=7, query_pre_attn_scalar=24)
case("gemma3", "gemma3_text",
     dict(G3, layer_types=["sliding_attention", "full_attention"] * 2,
          rope_parameters={"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000.0},
                           "sliding_attention": {"rope_type": "default", "rope_theta": 100.0}}), **GEMMA)
case("gemma3_soft", "gemma3_text",
     dict(G3, layer_types=["sliding_attention"] * 3 + ["full_attention"],
          final_logit_softcapping=3.0, attention_bias=True, tie_word_embeddings=False), **GEMMA)


def gemma3_old(config):
    """Before transformers 5: one rope_scaling for the full layers, rope_local_base_freq for the others."""
    c = {k: v for k, v in config.items() if k not in ("rope_parameters", "layer_types", "dtype")}
    return dict(c, rope_theta=1000.0, rope_local_base_freq=100.0, torch_dtype="float32",
                rope_scaling={"rope_type": "linear", "factor": 8.0}, sliding_window_pattern=2)


case("gemma3_old", "gemma3_text", G3, published=gemma3_old, **GEMMA)

# --- Phi-3, Phi-4 ------------------------------------------------------------------------------
PHI = dict(BASE)


def longrope(original, **more):
    return dict(rope_parameters={"rope_type": "longrope", "rope_theta": 100.0,
                                 "short_factor": [1.0, 1.25, 1.5, 2.0], "long_factor": [1.5, 2.0, 4.0, 8.0],
                                 "original_max_position_embeddings": original},
                original_max_position_embeddings=original, **more)


case("phi3", "phi3", PHI)
case("phi3_window", "phi3", dict(PHI, sliding_window=7, tie_word_embeddings=True))
case("phi3_partial", "phi3", dict(PHI, hidden_size=64, rope_parameters={
    "rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.75}))
case("phi3_long", "phi3", dict(PHI, **longrope(16)))
case("phi3_long_short", "phi3", dict(PHI, **longrope(48)))
case("phi3_long_old", "phi3", dict(PHI, **longrope(16)), published=old_dialect())

# --- OLMo 2 ------------------------------------------------------------------------------------
case("olmo2", "olmo2", dict(BASE, num_key_value_heads=4))
case("olmo2_bias", "olmo2", dict(BASE, attention_bias=True, tie_word_embeddings=True))
case("olmo2_old", "olmo2", BASE, published=old_dialect())

# --- gpt-oss -----------------------------------------------------------------------------------
OSS = dict(BASE, num_local_experts=8, num_experts_per_tok=2, intermediate_size=24, head_dim=12, sliding_window=7,
           swiglu_limit=1.5, rope_parameters=dict(YARN, truncate=False))
# [experts, in, out]: the fan-in is the middle one.
IN_OUT = [(r"experts\.(gate_up_proj|down_proj)$", (1, 1.2))]
case("gpt_oss", "gpt_oss", OSS, fill=IN_OUT)
case("gpt_oss_plain", "gpt_oss",
     dict(OSS, attention_bias=False, layer_types=["full_attention", "sliding_attention"], tie_word_embeddings=True,
          num_experts_per_tok=3, rope_parameters={"rope_type": "default", "rope_theta": 100.0}), fill=IN_OUT)
case("gpt_oss_old", "gpt_oss", OSS, fill=IN_OUT,
     published=old_dialect(swiglu_alpha=DROP, experts_per_token=2, initial_context_length=16))

# --- DeepSeek V3 (Kimi K2, Moonlight) ------------------------------------------------------------
MLA = dict(BASE, num_hidden_layers=3, num_key_value_heads=4, kv_lora_rank=16, q_lora_rank=20, qk_rope_head_dim=8,
           qk_nope_head_dim=12, v_head_dim=10, n_routed_experts=8, num_experts_per_tok=2, moe_intermediate_size=20,
           first_k_dense_replace=1, rope_parameters=dict(YARN, mscale=1.0, mscale_all_dim=1.0))
V3 = dict(MLA, n_group=4, topk_group=2, routed_scaling_factor=2.5)
PLAIN_ROPE = {"rope_type": "default", "rope_theta": 100.0}


def mtp(layer, hidden, likes):
    """A layer for predicting the token after the next, stored behind the others; `likes` are the shapes
    of one of the model's own layers."""
    own = [("embed_tokens.weight", [VOCAB, hidden]), ("enorm.weight", [hidden]), ("hnorm.weight", [hidden]),
           ("eh_proj.weight", [hidden, 2 * hidden]), ("shared_head.norm.weight", [hidden]),
           ("shared_head.head.weight", [VOCAB, hidden])]
    return [(f"model.layers.{layer}.{n}", s) for n, s in own + likes]


case("deepseek_v3", "deepseek_v3", V3)
case("deepseek_v3_plain", "deepseek_v3",
     dict(V3, q_lora_rank=None, n_group=1, topk_group=1, n_shared_experts=2, rope_interleave=False,
          norm_topk_prob=False, routed_scaling_factor=1.0, first_k_dense_replace=0, attention_bias=False,
          tie_word_embeddings=True, rope_parameters=PLAIN_ROPE))
case("deepseek_v3_bias", "deepseek_v3",
     dict(V3, attention_bias=True, n_group=2, topk_group=1,
          rope_parameters=dict(YARN, mscale=0.707, mscale_all_dim=1.5)))
case("deepseek_v3_old", "deepseek_v3", V3, extra=mtp(3, 32, [("self_attn.o_proj.weight", [32, 40])]),
     published=old_dialect(scoring_func="sigmoid", topk_method="noaux_tc", moe_layer_freq=1, ep_size=1,
                           num_nextn_predict_layers=1, num_mtp_layers=DROP, head_dim=DROP, qk_head_dim=DROP,
                           rope_interleave=DROP))

# --- DeepSeek V2 ---------------------------------------------------------------------------------
V2 = dict(MLA, n_shared_experts=2, topk_method="greedy")
case("deepseek_v2", "deepseek_v2", dict(V2, q_lora_rank=None, rope_parameters=PLAIN_ROPE))
case("deepseek_v2_groups", "deepseek_v2",
     dict(V2, topk_method="group_limited_greedy", n_group=4, topk_group=2, num_experts_per_tok=3, routed_scaling_factor=4.0,
          attention_bias=True, mlp_bias=True, n_shared_experts=1, tie_word_embeddings=True,
          rope_parameters=dict(YARN, mscale=0.707, mscale_all_dim=1.5)))
case("deepseek_v2_old", "deepseek_v2", V2,
     published=old_dialect(scoring_func="softmax", moe_layer_freq=1, ep_size=1, head_dim=DROP, qk_head_dim=DROP,
                           qk_nope_head_dim=12))

# --- Granite 3 -----------------------------------------------------------------------------------
GRANITE = dict(BASE, embedding_multiplier=3.0, residual_multiplier=0.5, attention_multiplier=0.25,
               logits_scaling=4.0)
case("granite", "granite", GRANITE)
case("granite_bias", "granite",
     dict(BASE, attention_multiplier=0.35, attention_bias=True, mlp_bias=True, tie_word_embeddings=True))
case("granite_old", "granite", GRANITE, published=old_dialect())

# --- GLM-4 (0414), GLM-4.5 to 4.7 ------------------------------------------------------------------
GLM = dict(BASE, head_dim=12)
case("glm4", "glm4", GLM)
case("glm4_plain", "glm4", dict(GLM, attention_bias=False, tie_word_embeddings=True, rope_parameters=dict(
    PLAIN_ROPE, partial_rotary_factor=1.0)))
case("glm4_old", "glm4", GLM, published=old_dialect())

GLMM = dict(BASE, num_hidden_layers=3, head_dim=12, n_routed_experts=8, num_experts_per_tok=2,
            moe_intermediate_size=20, first_k_dense_replace=1, rope_parameters=dict(
                PLAIN_ROPE, partial_rotary_factor=0.5))
case("glm4_moe", "glm4_moe", dict(GLMM, use_qk_norm=True, attention_bias=True, routed_scaling_factor=2.5))
case("glm4_moe_plain", "glm4_moe",
     dict(GLMM, n_group=2, topk_group=1, norm_topk_prob=False, n_shared_experts=2, tie_word_embeddings=True,
          first_k_dense_replace=0))
case("glm4_moe_old", "glm4_moe", dict(GLMM, attention_bias=True),
     extra=mtp(3, 32, [("self_attn.o_proj.weight", [32, 48])]),
     published=old_dialect(num_nextn_predict_layers=1, num_mtp_layers=DROP))

# --- Command R, Command A ---------------------------------------------------------------------------
COHERE = dict(LAYER_NORM, logit_scale=0.25)
case("cohere", "cohere", COHERE)
case("cohere_norm", "cohere", dict(COHERE, use_qk_norm=True, attention_bias=True, tie_word_embeddings=False))
case("cohere_old", "cohere", COHERE, published=old_dialect(tie_word_embeddings=DROP))
case("cohere2", "cohere2", dict(COHERE, num_hidden_layers=4, sliding_window=7))
case("cohere2_bias", "cohere2",
     dict(COHERE, sliding_window=7, attention_bias=True, tie_word_embeddings=False, head_dim=12,
          layer_types=["full_attention", "sliding_attention"]), silent=r"layers.0.self_attn.k_proj.bias")
case("cohere2_old", "cohere2", dict(COHERE, num_hidden_layers=3, sliding_window=7, sliding_window_pattern=3),
     published=old_dialect(layer_types=DROP, sliding_window_pattern=3, layer_switch=3, rotary_pct=1.0,
                           position_embedding_type="rope_gptj", tie_word_embeddings=DROP,
                           order_of_interleaved_layers="local_attn_first"))

# k_proj.bias of layers without positions adds the same to all scores of a query: `silent`.

# --- SmolLM3 ---------------------------------------------------------------------------------------
SMOL = dict(BASE, num_hidden_layers=4)
case("smollm3", "smollm3", SMOL)
case("smollm3_bias", "smollm3",
     dict(SMOL, attention_bias=True, mlp_bias=True, tie_word_embeddings=False, no_rope_layers=[1, 0, 1, 0],
          use_sliding_window=True, sliding_window=7), silent=r"layers.[13].self_attn.k_proj.bias")
case("smollm3_old", "smollm3", SMOL, published=old_dialect(layer_types=DROP))

# --- EXAONE 4 --------------------------------------------------------------------------------------
EXAONE = dict(BASE, num_hidden_layers=4)
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32, "rope_theta": 300.0}
case("exaone4", "exaone4", dict(EXAONE, sliding_window=7, sliding_window_pattern=2, head_dim=12,
                                rope_parameters=LLAMA3))
case("exaone4_full", "exaone4", dict(EXAONE, sliding_window=None, tie_word_embeddings=True,
                                     layer_types=["full_attention"] * 4))
case("exaone4_old", "exaone4", dict(EXAONE, sliding_window=7),
     published=old_dialect(sliding_window_pattern="LLLG"))

# --- Seed-OSS --------------------------------------------------------------------------------------
SEED = dict(BASE, head_dim=12)
case("seed_oss", "seed_oss", SEED)
case("seed_oss_bias", "seed_oss", dict(SEED, attention_bias=False, attention_out_bias=True, mlp_bias=True,
                                       tie_word_embeddings=True))
case("seed_oss_old", "seed_oss", SEED, published=old_dialect())

# --- Ministral 3 (the language model of Mistral 3 from December 2025 on) -----------------------------
MIN3 = dict(BASE, head_dim=12, rope_parameters=dict(YARN, type="yarn", llama_4_scaling_beta=0.5, mscale=1.0,
                                                    mscale_all_dim=1.0, max_position_embeddings=64))
case("ministral3", "ministral3", MIN3)
case("ministral3_window", "ministral3",
     dict(MIN3, sliding_window=7, tie_word_embeddings=True, rope_parameters=dict(
         YARN, llama_4_scaling_beta=0.0)))

# --- OLMo 3 ----------------------------------------------------------------------------------------
OLMO3 = dict(BASE, num_hidden_layers=4, sliding_window=7)
case("olmo3", "olmo3",
     dict(OLMO3, num_key_value_heads=4, rope_parameters={
         "full_attention": dict(YARN), "sliding_attention": PLAIN_ROPE}))
case("olmo3_bias", "olmo3", dict(OLMO3, attention_bias=True, tie_word_embeddings=True,
                                 layer_types=["full_attention", "sliding_attention"] * 2))


def olmo3_old(config):
    """Before transformers 5: one rope_scaling, which is for the full layers alone."""
    c = {k: v for k, v in config.items() if k not in ("rope_parameters", "dtype")}
    return dict(c, rope_theta=500000.0, torch_dtype="float32",
                rope_scaling={k: v for k, v in YARN.items() if k != "rope_theta"})


case("olmo3_old", "olmo3", OLMO3, published=olmo3_old)

# --- GPT-2 -----------------------------------------------------------------------------------------
GPT2 = dict(vocab_size=VOCAB, n_embd=32, n_layer=2, n_head=4, n_positions=64, layer_norm_epsilon=0.01,
            bos_token_id=1, eos_token_id=2)
case("gpt2", "gpt2", GPT2)
case("gpt2_inner", "gpt2", dict(GPT2, n_inner=44, scale_attn_by_inverse_layer_idx=True, tie_word_embeddings=False,
                                activation_function="gelu"))
# The first published files have no prefix, and the causal mask as a tensor.
case("gpt2_old", "gpt2", GPT2, stored=lambda names: [(n.removeprefix("transformer."), s) for n, s in names],
     extra=[(f"h.{i}.attn.bias", [1, 1, 64, 64]) for i in range(2)],
     published=lambda c: {k: v for k, v in dict(c, n_ctx=64, torch_dtype="float32").items() if k not in (
         "dtype", "tie_word_embeddings", "scale_attn_weights", "n_inner", "scale_attn_by_inverse_layer_idx",
         "reorder_and_upcast_attn", "add_cross_attention", "pad_token_id")})

# --- GPT-NeoX (Pythia) -------------------------------------------------------------------------------
NEOX = {k: v for k, v in LAYER_NORM.items() if k != "num_key_value_heads"}
case("gpt_neox", "gpt_neox", dict(NEOX, hidden_size=64, rope_parameters=dict(
    PLAIN_ROPE, partial_rotary_factor=0.25)))
case("gpt_neox_serial", "gpt_neox",
     dict(NEOX, use_parallel_residual=False, attention_bias=False, tie_word_embeddings=True, hidden_act="gelu_fast",
          rope_parameters=dict(PLAIN_ROPE, partial_rotary_factor=1.0)))


def neox_old(config):
    c = {k: v for k, v in config.items() if k not in ("rope_parameters", "dtype", "attention_bias")}
    return dict(c, rotary_pct=0.25, rotary_emb_base=100, torch_dtype="float32")


case("gpt_neox_old", "gpt_neox", dict(NEOX, hidden_size=64, rope_parameters=dict(
    PLAIN_ROPE, partial_rotary_factor=0.25)), published=neox_old,
     extra=[(f"gpt_neox.layers.{i}.attention.{n}", s) for i in range(2) for n, s in (
         ("bias", [1, 1, 64, 64]), ("masked_bias", [1]), ("rotary_emb.inv_freq", [2]))])

# --- OPT -------------------------------------------------------------------------------------------
OPT = dict(vocab_size=VOCAB, hidden_size=32, ffn_dim=44, num_hidden_layers=2, num_attention_heads=4,
           max_position_embeddings=64, word_embed_proj_dim=32, bos_token_id=1, eos_token_id=2, pad_token_id=None)
case("opt", "opt", OPT, silent=r"k_proj\.bias$")
case("opt_post", "opt", dict(OPT, do_layer_norm_before=False, word_embed_proj_dim=20), silent=r"k_proj\.bias$")
case("opt_bare", "opt", dict(OPT, enable_bias=False, layer_norm_elementwise_affine=False, tie_word_embeddings=False,
                             activation_function="gelu"))

# --- ERNIE 4.5 ---------------------------------------------------------------------------------------
ERNIE = dict(BASE, head_dim=12)
case("ernie4_5", "ernie4_5", ERNIE)
case("ernie4_5_bias", "ernie4_5", dict(ERNIE, use_bias=True, tie_word_embeddings=False))
case("ernie4_5_old", "ernie4_5", ERNIE, published=old_dialect(tie_word_embeddings=DROP))
ERNIEM = dict(BASE, num_hidden_layers=3, moe_num_experts=8, moe_k=2, moe_intermediate_size=20)
case("ernie4_5_moe", "ernie4_5_moe", ERNIEM)
case("ernie4_5_moe_plain", "ernie4_5_moe",
     dict(ERNIEM, moe_num_shared_experts=0, moe_layer_start_index=0, moe_layer_end_index=1, use_bias=True,
          tie_word_embeddings=False))
case("ernie4_5_moe_old", "ernie4_5_moe",
     dict(ERNIEM, num_hidden_layers=4, moe_layer_interval=2, moe_num_shared_experts=1),
     published=old_dialect(tie_word_embeddings=DROP, moe_use_aux_free=True))

# --- MiniMax-M2 --------------------------------------------------------------------------------------
MINIMAX = dict(BASE, num_local_experts=8, num_experts_per_tok=2, intermediate_size=20, head_dim=12)
case("minimax_m2", "minimax_m2", dict(MINIMAX, rope_parameters=dict(PLAIN_ROPE, partial_rotary_factor=0.5)))
case("minimax_m2_full", "minimax_m2", dict(MINIMAX, head_dim=8, tie_word_embeddings=True, rope_parameters=PLAIN_ROPE))
case("minimax_m2_old", "minimax_m2", dict(MINIMAX, rope_parameters=dict(PLAIN_ROPE, partial_rotary_factor=0.5)),
     published=old_dialect(rotary_dim=6, partial_rotary_factor=DROP, scoring_func="sigmoid", use_routing_bias=True,
                           use_qk_norm=True, qk_norm_type="per_layer", use_mtp=True, num_mtp_modules=3,
                           mtp_transformer_layers=1, attn_type_list=[1, 1], shared_intermediate_size=0))

# --- Llama 4, text -----------------------------------------------------------------------------------
LLAMA4 = dict(BASE, num_hidden_layers=4, head_dim=12, num_local_experts=8, num_experts_per_tok=1, intermediate_size=20,
              intermediate_size_mlp=44, attention_chunk_size=16, floor_scale=8, attn_scale=0.5)
case("llama4", "llama4_text", dict(LLAMA4, no_rope_layers=[1, 1, 0, 1], interleave_moe_layer_step=2,
                                   rope_parameters=LLAMA3), fill=IN_OUT)
case("llama4_plain", "llama4_text",
     dict(LLAMA4, use_qk_norm=False, attn_temperature_tuning=False, tie_word_embeddings=True, num_experts_per_tok=2,
          attention_bias=True, no_rope_layer_interval=2, attention_chunk_size=64), fill=IN_OUT,
     silent=r"layers.[13].self_attn.k_proj.bias")
case("llama4_old", "llama4_text", dict(LLAMA4), fill=IN_OUT,
     published=old_dialect(layer_types=DROP, moe_layers=[0, 1, 2, 3], no_rope_layers=[]))

# --- GLM-4.7-Flash -----------------------------------------------------------------------------------
LITE = dict(MLA, routed_scaling_factor=1.8)
del LITE["first_k_dense_replace"]
case("glm4_moe_lite", "glm4_moe_lite", dict(LITE, rope_parameters=PLAIN_ROPE))
case("glm4_moe_lite_plain", "glm4_moe_lite",
     dict(LITE, q_lora_rank=None, n_group=4, topk_group=2, norm_topk_prob=False, rope_interleave=False,
          attention_bias=True, n_shared_experts=2, tie_word_embeddings=True, mlp_layer_types=["sparse", "dense", "sparse"]))

# --- Qwen3-Next, Qwen3.5 -----------------------------------------------------------------------------
DELTA = dict(BASE, num_hidden_layers=4, head_dim=16, linear_conv_kernel_dim=4, linear_key_head_dim=8,
             linear_value_head_dim=6, linear_num_key_heads=2, linear_num_value_heads=4)
NEXT = dict(DELTA, **MOE, shared_expert_intermediate_size=28, full_attention_interval=2, norm_topk_prob=True)
# Norms are 1+w but for the one behind the delta rule.
ONE_PLUS = dict(norms=0, fill=[(r"linear_attn\.norm\.weight$", [128, 64, 7])])
case("qwen3_next", "qwen3_next", NEXT, **ONE_PLUS)
case("qwen3_next_plain", "qwen3_next",
     dict(NEXT, num_hidden_layers=3, layer_types=["full_attention", "linear_attention", "linear_attention"],
          norm_topk_prob=False, attention_bias=True, tie_word_embeddings=True, mlp_only_layers=[1],
          linear_num_value_heads=2, linear_conv_kernel_dim=3, rope_parameters=dict(
              PLAIN_ROPE, partial_rotary_factor=1.0)), **ONE_PLUS)
case("qwen3_next_old", "qwen3_next", dict(NEXT, decoder_sparse_step=2), **ONE_PLUS,
     extra=[("mtp.fc.weight", [32, 64]), ("mtp.norm.weight", [32]), ("mtp.pre_fc_norm_hidden.weight", [32]),
            ("mtp.layers.0.mlp.experts.0.up_proj.weight", [20, 32]), ("mtp.layers.0.input_layernorm.weight", [32])],
     published=old_dialect(layer_types=DROP, full_attention_interval=2, num_experts=8, num_local_experts=DROP))
case("qwen3_5", "qwen3_5_text", dict(DELTA, full_attention_interval=4), **ONE_PLUS)
case("qwen3_5_plain", "qwen3_5_text",
     dict(DELTA, layer_types=["full_attention", "linear_attention"] * 2, attention_bias=True, tie_word_embeddings=True,
          linear_num_key_heads=4), **ONE_PLUS)
Q35M = dict(DELTA, **MOE, shared_expert_intermediate_size=28, full_attention_interval=2)
case("qwen3_5_moe", "qwen3_5_moe_text", Q35M, **ONE_PLUS)
case("qwen3_5_moe_tied", "qwen3_5_moe_text", dict(Q35M, num_hidden_layers=2, tie_word_embeddings=True,
                                                  attention_bias=True), **ONE_PLUS)

# --- LFM2 ------------------------------------------------------------------------------------------
LFM2 = {k: v for k, v in BASE.items() if k != "rms_norm_eps"}
LFM2 = dict(LFM2, num_hidden_layers=4, norm_eps=0.01, block_multiple_of=8)
case("lfm2", "lfm2", dict(LFM2, layer_types=["conv", "full_attention", "conv", "full_attention"]))
case("lfm2_plain", "lfm2", dict(LFM2, layer_types=["full_attention", "conv", "conv", "conv"], conv_bias=True,
                                block_auto_adjust_ff_dim=False, tie_word_embeddings=False, conv_L_cache=4))
case("lfm2_old", "lfm2", dict(LFM2, full_attn_idxs=[1, 3], block_ffn_dim_multiplier=1.3),
     published=lambda c: old_dialect(layer_types=DROP, full_attn_idxs=[1, 3], block_ff_dim=44, tie_embedding=True,
                                     tie_word_embeddings=DROP, intermediate_size=DROP, block_dim=32, conv_dim=32,
                                     conv_dim_out=32, block_use_swiglu=True, num_heads=4, theta=1000000.0)(c))
LFM2M = dict(LFM2, **MOE, num_dense_layers=1, layer_types=["conv", "full_attention", "conv", "full_attention"])
del LFM2M["block_multiple_of"]
case("lfm2_moe", "lfm2_moe", LFM2M)
case("lfm2_moe_plain", "lfm2_moe",
     dict(LFM2M, use_expert_bias=False, norm_topk_prob=False, routed_scaling_factor=2.5, conv_bias=True,
          num_dense_layers=0, tie_word_embeddings=False))

# --- Granite 3 and 4, mixtures and hybrids -------------------------------------------------------------
GRANITEM = dict(GRANITE, num_local_experts=8, num_experts_per_tok=2, intermediate_size=20)
LINEARS = dict(fill=[(r"(input|output)_linear\.weight$", (-1, 1.2))])
case("granitemoe", "granitemoe", GRANITEM, **LINEARS)
case("granitemoe_bias", "granitemoe", dict(GRANITEM, attention_bias=True, tie_word_embeddings=True), **LINEARS)
case("granitemoeshared", "granitemoeshared", dict(GRANITEM, shared_intermediate_size=28), **LINEARS)
HYBRID = dict(GRANITEM, num_hidden_layers=3, shared_intermediate_size=28, mamba_n_heads=8, mamba_d_head=8,
              mamba_n_groups=2, mamba_d_state=12, mamba_chunk_size=16)
case("granitemoehybrid", "granitemoehybrid",
     dict(HYBRID, layer_types=["linear_attention", "full_attention", "linear_attention"]), **LINEARS)
case("granitemoehybrid_dense", "granitemoehybrid",
     dict(HYBRID, layer_types=["full_attention"] * 3, num_local_experts=0, position_embedding_type="rope",
          attention_bias=True, tie_word_embeddings=True), **LINEARS)
case("granitemoehybrid_bias", "granitemoehybrid",
     dict(HYBRID, layer_types=["linear_attention", "linear_attention", "full_attention"], num_local_experts=0,
          mamba_proj_bias=True, mamba_conv_bias=False, mamba_n_groups=1, time_step_limit=(0.25, 1.5)), **LINEARS)

# --- Gemma 4, text -----------------------------------------------------------------------------------
G4 = dict(BASE, head_dim=12, global_head_dim=16, num_hidden_layers=4, sliding_window=7, hidden_size_per_layer_input=0,
          vocab_size_per_layer_input=VOCAB, layer_types=["sliding_attention", "full_attention"] * 2)
G4FILL = dict(fill=[(r"embed_tokens", [0, 127, 8])])
case("gemma4", "gemma4_text", dict(G4, final_logit_softcapping=3.0), **G4FILL)
case("gemma4_moe", "gemma4_text",
     dict(G4, enable_moe_block=True, num_experts=8, top_k_experts=2, moe_intermediate_size=20, attention_k_eq_v=True,
          num_global_key_value_heads=1, tie_word_embeddings=False), **G4FILL)
G4SIX = dict(G4, num_hidden_layers=6, layer_types=["sliding_attention", "full_attention"] * 3)
G4SMALL = dict(G4SIX, hidden_size_per_layer_input=8, num_kv_shared_layers=3)
case("gemma4_small", "gemma4_text", dict(G4SMALL, use_double_wide_mlp=True, attention_bias=True), **G4FILL)
case("gemma4_told", "gemma4_text", dict(G4, hidden_size_per_layer_input=8, vocab_size_per_layer_input=VOCAB + 5), **G4FILL)
case("gemma4_shared", "gemma4_text",
     dict(G4SIX, num_kv_shared_layers=2, attention_k_eq_v=True, num_global_key_value_heads=1), **G4FILL)
case("gemma4_small_moe", "gemma4_text",
     dict(G4SMALL, enable_moe_block=True, num_experts=8, top_k_experts=2, moe_intermediate_size=20), **G4FILL)


def gemma4_old(config):
    """Published files name the full layers' sizes by keys of their own."""
    c = {k: v for k, v in config.items() if k != "per_layer_config"}
    return dict(c, global_head_dim=16, num_global_key_value_heads=1)


case("gemma4_old", "gemma4_text",
     dict(G4, attention_k_eq_v=True, num_global_key_value_heads=1), published=gemma4_old, **G4FILL)


def granite4_old(config):
    """Published files say "mamba" and "attention", and have no limit of the time step."""
    words = {"linear_attention": "mamba", "full_attention": "attention"}
    c = old_dialect(layer_types=[words[t] for t in config["layer_types"]], time_step_limit=DROP)(config)
    return dict(c, init_method="mup", normalization_function="rmsnorm", position_embedding_type="nope")


case("granitemoehybrid_old", "granitemoehybrid",
     dict(HYBRID, layer_types=["linear_attention", "full_attention", "linear_attention"]), published=granite4_old, **LINEARS)

# --- vision-language wrappers: read with text alone ----------------------------------------------------
# A token that stands for an image must not occur in the prompts: 79 and 77 do not.
SEEN = {(7 * i * i + 3 * i + 1) % VOCAB for i in range(40)} | {(5 * i * i + 11 * i + 62) % VOCAB for i in range(25)}
UNSEEN = sorted(set(range(VOCAB)) - SEEN)
VISION = dict(vision=True, silent=r"visual|vision|multi_modal")
QWEN_EYE = dict(depth=1, hidden_size=16, intermediate_size=20, num_heads=2, patch_size=4, spatial_merge_size=2,
                temporal_patch_size=2, out_hidden_size=32)
QWEN_TOKENS = dict(image_token_id=UNSEEN[0], video_token_id=UNSEEN[1], vision_start_token_id=UNSEEN[2],
                   vision_end_token_id=UNSEEN[3])
MROPE = {"rope_type": "default", "rope_theta": 100.0, "mrope_section": [2, 1, 1]}
Q25VL = dict(QWEN_TOKENS, text_config=dict(BASE, rope_parameters=MROPE),
             vision_config=dict(QWEN_EYE, window_size=16, fullatt_block_indexes=[0]))
case("qwen2_5_vl", "qwen2_5_vl", Q25VL, **VISION)
Q2VL_EYE = dict(depth=1, embed_dim=16, hidden_size=32, num_heads=2, mlp_ratio=2, patch_size=4, spatial_merge_size=1,
                temporal_patch_size=1)
case("qwen2_vl", "qwen2_vl", dict(QWEN_TOKENS, text_config=dict(BASE, rope_parameters=MROPE), vision_config=Q2VL_EYE),
     **VISION)
case("qwen2_5_vl_tied", "qwen2_5_vl", dict(Q25VL, tie_word_embeddings=True), **VISION)


def flat(config):
    """Before transformers 4.52 the language model's keys stood at the top, its kind of rotation was "mrope"."""
    text = {k: v for k, v in config["text_config"].items() if k not in (
        "rope_parameters", "dtype", "model_type", "layer_types")}
    rest = {k: v for k, v in config.items() if k not in ("text_config", "dtype")}
    return dict(text, **rest, rope_theta=100.0, rope_scaling={"type": "mrope", "mrope_section": [2, 1, 1]},
                torch_dtype="float32")


case("qwen2_5_vl_old", "qwen2_5_vl", Q25VL, published=flat, **VISION)
Q3VL_EYE = dict(QWEN_EYE, num_position_embeddings=16, deepstack_visual_indexes=[0])
Q3VL = dict(QWEN_TOKENS, vision_config=Q3VL_EYE, text_config=dict(
    BASE, head_dim=12, rope_parameters=dict(MROPE, mrope_section=[2, 2, 2], mrope_interleaved=True)))
case("qwen3_vl", "qwen3_vl", Q3VL, **VISION)
case("qwen3_vl_tied", "qwen3_vl", dict(Q3VL, tie_word_embeddings=True), **VISION)
case("qwen3_vl_moe", "qwen3_vl_moe", dict(Q3VL, text_config=dict(Q3VL["text_config"], **MOE, num_hidden_layers=3,
                                                                 mlp_only_layers=[1])),
     **dict(VISION, fill=[(r"experts\.(gate_up_proj|down_proj)$", (1, 1.2))]))
Q35_EYE = {k: v for k, v in Q3VL_EYE.items() if k != "deepstack_visual_indexes"}
NEW_ROPE = dict(PLAIN_ROPE, partial_rotary_factor=0.25, mrope_section=[1, 1, 0], mrope_interleaved=True)
MTP = [("mtp.fc.weight", [32, 64]), ("mtp.norm.weight", [32]), ("mtp.layers.0.input_layernorm.weight", [32])]
case("qwen3_5_vl", "qwen3_5", dict(QWEN_TOKENS, vision_config=Q35_EYE, text_config=dict(
    DELTA, full_attention_interval=2, rope_parameters=NEW_ROPE)), extra=MTP, **VISION, **ONE_PLUS)
case("qwen3_5_moe_vl", "qwen3_5_moe", dict(QWEN_TOKENS, vision_config=Q35_EYE, text_config=dict(
    Q35M, rope_parameters=NEW_ROPE)), extra=MTP, **VISION, **ONE_PLUS)

EYE = dict(hidden_size=16, intermediate_size=20, num_hidden_layers=1, num_attention_heads=2, image_size=16, patch_size=4)
case("gemma3_vl", "gemma3",
     dict(text_config=dict(G3, layer_types=["sliding_attention", "full_attention"] * 2),
          vision_config=dict(EYE, vision_use_head=False), mm_tokens_per_image=4, image_token_index=UNSEEN[0],
          boi_token_index=UNSEEN[1], eoi_token_index=UNSEEN[2]), **VISION, **GEMMA)
MISTRAL3 = dict(vision_config=dict(EYE, model_type="pixtral"), image_token_index=UNSEEN[0])
case("mistral3_vl", "mistral3", dict(MISTRAL3, text_config=dict(BASE, head_dim=12, model_type="mistral",
                                                                sliding_window=None)), **VISION)
case("mistral3_vl_ministral", "mistral3",
     dict(MISTRAL3, tie_word_embeddings=False, multimodal_projector_bias=True,
          text_config=dict(MIN3, model_type="ministral3")), **VISION)
case("llama4_vl", "llama4",
     dict(text_config=dict(LLAMA4, no_rope_layers=[1, 1, 0, 1]), image_token_index=UNSEEN[0],
          boi_token_index=UNSEEN[1], eoi_token_index=UNSEEN[2],
          vision_config=dict(EYE, vision_output_dim=16, projector_input_dim=16, projector_output_dim=16)),
     **dict(VISION, fill=IN_OUT))
case("gemma4_vl", "gemma4",
     dict(text_config=dict(G4, pad_token_id=0), audio_config=None, image_token_id=UNSEEN[0], boi_token_id=UNSEEN[1],
          eoi_token_id=UNSEEN[2], video_token_id=UNSEEN[3], audio_token_id=UNSEEN[4], boa_token_id=UNSEEN[5],
          vision_config=dict(hidden_size=16, intermediate_size=20, num_hidden_layers=1, num_attention_heads=2,
                             num_key_value_heads=2, head_dim=8, patch_size=4, position_embedding_size=16)),
     **dict(VISION, **G4FILL))


def gemma4_published(config):
    """The small models as they are published: sizes of full layers by keys of their own."""
    text = {k: v for k, v in config["text_config"].items() if k != "per_layer_config"}
    return dict(config, text_config=dict(text, global_head_dim=16, num_global_key_value_heads=None))


# Nobody reads the keys and values of layers that share those of others, but they are there.
UNREAD = [(f"model.language_model.layers.{i}.self_attn.{part}.weight", shape if part[2:] == "proj" else shape[:1])
          for i, dim in ((3, 16), (4, 12), (5, 16))
          for part, shape in (("k_proj", [2 * dim, 32]), ("v_proj", [2 * dim, 32]), ("k_norm", [dim]))]
case("gemma4_small_vl", "gemma4",
     dict(text_config=dict(G4SMALL, use_double_wide_mlp=True, pad_token_id=0), audio_config=None,
          image_token_id=UNSEEN[0], boi_token_id=UNSEEN[1], eoi_token_id=UNSEEN[2], video_token_id=UNSEEN[3],
          audio_token_id=UNSEEN[4], boa_token_id=UNSEEN[5],
          vision_config=dict(hidden_size=16, intermediate_size=20, num_hidden_layers=1, num_attention_heads=2,
                             num_key_value_heads=2, head_dim=8, patch_size=4, position_embedding_size=16)),
     published=gemma4_published, extra=UNREAD, **dict(VISION, **G4FILL))

# --- the same experts in one tensor, and under names of the other kind ---------------------------------
case("qwen3_moe_fused", "qwen3_moe", dict(Q3M, norm_topk_prob=True), stored=fused())
case("qwen3_5_moe_fused", "qwen3_5_moe_text", Q35M, stored=fused(), **ONE_PLUS)
case("qwen3_5_moe_vl_fused", "qwen3_5_moe", dict(QWEN_TOKENS, vision_config=Q35_EYE, text_config=dict(
    Q35M, rope_parameters=NEW_ROPE)), stored=fused(), extra=MTP, **VISION, **ONE_PLUS)


def mxfp4(names):
    """gpt-oss as it is published: blocks of 32 codes of 4 bits along the input, a power of two each."""
    kept = []
    for name, shape in names:
        if name.endswith(("gate_up_proj", "down_proj")):
            e, cols, rows = shape
            kept += [(name + "_blocks", [e, rows, cols // 32, 16]), (name + "_scales", [e, rows, cols // 32])]
        else:
            kept.append((name, shape))
    return kept


case("gpt_oss_mxfp4", "gpt_oss", dict(OSS, hidden_size=64, intermediate_size=32), stored=mxfp4,
     published=lambda c: old_dialect(quantization_config={
         "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens",
                                    "lm_head"], "quant_method": "mxfp4"})(c),
     fill=[(r"_blocks$", [128, 127, 0]), (r"_scales$", [122, 1, 0])], bytes=r"_(blocks|scales)$")

# --- StarCoder 2 -----------------------------------------------------------------------------------
STAR = {k: v for k, v in BASE.items() if k != "rms_norm_eps"} | dict(norm_epsilon=0.01)
case("starcoder2", "starcoder2", dict(STAR, tie_word_embeddings=False), silent=r"k_proj\.bias$")
case("starcoder2_plain", "starcoder2", dict(STAR, use_bias=False, sliding_window=7))
case("starcoder2_old", "starcoder2", dict(STAR, sliding_window=7), silent=r"k_proj\.bias$",
     published=old_dialect(norm_type="layer_norm", mlp_type="default", attention_softmax_in_fp32=True,
                           tie_word_embeddings=DROP))

# --- Phi 1, 1.5, 2 ---------------------------------------------------------------------------------
PHI2 = dict(LAYER_NORM, hidden_size=64, num_key_value_heads=None)
case("phi", "phi", PHI2)
case("phi_few", "phi", dict(PHI2, num_key_value_heads=2, rope_parameters=dict(PLAIN_ROPE, partial_rotary_factor=0.25)))
case("phi_old", "phi", dict(PHI2, rope_parameters=dict(PLAIN_ROPE, partial_rotary_factor=0.25)),
     published=old_dialect(embd_pdrop=0.0, resid_pdrop=0.1, num_key_value_heads=DROP))

# --- Nemotron 3 and 4, Minitron --------------------------------------------------------------------
NEMO = {k: v for k, v in BASE.items() if k != "rms_norm_eps"} | dict(norm_eps=0.01, head_dim=12)
case("nemotron", "nemotron", dict(NEMO, hidden_size=64, head_dim=None), norms=0)
case("nemotron_bias", "nemotron", dict(NEMO, attention_bias=True, mlp_bias=True, tie_word_embeddings=True, rope_parameters=dict(
    PLAIN_ROPE, partial_rotary_factor=1.0)), norms=0, silent=r"k_proj\.bias$")
case("nemotron_old", "nemotron", dict(NEMO, head_dim=16), norms=0,
     published=old_dialect(attention_bias=DROP, mlp_bias=DROP, tie_word_embeddings=DROP))

# --- published combinations ----------------------------------------------------------------------------
# Kimi K2: another model_type, which names a class of its own files to transformers, over the same architecture.
case("deepseek_v3_kimi", "deepseek_v3", dict(V3, n_group=1, topk_group=1, routed_scaling_factor=2.827),
     published=old_dialect(scoring_func="sigmoid", topk_method="noaux_tc", head_dim=DROP, qk_head_dim=DROP,
                           rope_interleave=DROP, num_nextn_predict_layers=0, num_mtp_layers=DROP),
     shown=lambda c: dict(c, model_type="kimi_k2", auto_map={
         "AutoModelForCausalLM": "modeling_deepseek.DeepseekV3ForCausalLM"}))
# Phi-4-mini: rotation of three quarters of a head by long factors, a window wider than the context, a tied head.
case("phi3_mini4", "phi3",
     dict(PHI, hidden_size=64, sliding_window=64, tie_word_embeddings=True, original_max_position_embeddings=16,
          rope_parameters={"rope_type": "longrope", "rope_theta": 100.0, "partial_rotary_factor": 0.75,
                           "short_factor": [1.0, 1.1, 1.25, 1.5, 1.75, 2.0],
                           "long_factor": [1.5, 2.0, 3.0, 4.0, 6.0, 8.0], "original_max_position_embeddings": 16}),
     published=lambda c: dict(old_dialect()(c), rope_scaling={
         k: v for k, v in c["rope_parameters"].items() if k.endswith("_factor") and k[0] != "p"} | {"type": "longrope"}))
# Gemma 3 as it is published: the tower's names have one more word, the language model's config only what
# differs from the defaults.
case("gemma3_vl_old", "gemma3",
     dict(text_config=dict(G3, sliding_window_pattern=2), vision_config=dict(EYE, vision_use_head=False),
          mm_tokens_per_image=4, image_token_index=UNSEEN[0], boi_token_index=UNSEEN[1], eoi_token_index=UNSEEN[2]),
     stored=lambda names: [(n.replace("vision_tower.", "vision_tower.vision_model."), s) for n, s in names],
     published=lambda c: {**{k: v for k, v in c.items() if k not in ("dtype", "tie_word_embeddings")},
                          "torch_dtype": "float32", "text_config": {k: v for k, v in gemma3_old(
                              c["text_config"]).items() if k not in ("torch_dtype", "tie_word_embeddings",
                                                                     "attention_bias", "use_cache")}},
     **VISION, **GEMMA)
