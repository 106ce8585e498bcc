"""The cases of make_arch.py: tiny configs, one with and one without each option of each architecture."""
VOCAB = 80
BASE = dict(vocab_size=VOCAB, hidden_size=32, intermediate_size=44, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
            bos_token_id=1, eos_token_id=2, pad_token_id=None)
MOE = dict(num_experts_per_tok=2, num_experts=8, moe_intermediate_size=20)

CASES = []


def case(name, model_type, config, **more):
    assert all(c["name"] != name for c in CASES), name
    CASES.append(dict(name=name, model_type=model_type, config=config, **more))


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


DROP = object()
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "rope_theta": 100.0,
        "beta_fast": 2.0, "beta_slow": 0.25}

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
