"""A small random model of a kind, with the probe's tokenizer: kinds_model.py KIND PROBE OUT [dense]."""
import json, os, random, shutil, struct, sys

kind, probe, out, sparse = *sys.argv[1:4], "dense" not in sys.argv[4:]
hidden, heads, dim, ffn, experts, wide = 128, 4, 32, 128, 4, 128
vocab = json.load(open(os.path.join(probe, "config.json")))["vocab_size"]
config = {"model_type": kind, "hidden_size": hidden, "intermediate_size": ffn, "num_attention_heads": heads,
          "num_key_value_heads": heads, "num_hidden_layers": 2, "vocab_size": vocab, "hidden_act": "silu",
          "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
          "moe_intermediate_size": wide, "num_experts_per_tok": 2, "norm_topk_prob": True, "rope_theta": 10000.0}
shapes = {"model.embed_tokens.weight": [vocab, hidden], "lm_head.weight": [vocab, hidden], "model.norm.weight": [hidden]}


def mlp(name, width):
    return {name + ".gate_proj.weight": [width, hidden], name + ".up_proj.weight": [width, hidden],
            name + ".down_proj.weight": [hidden, width]}


def mixture(shared):
    part = {"mlp.gate.weight": [experts, hidden]}
    for e in range(experts):
        part |= mlp(f"mlp.experts.{e}", wide)
    return part | mlp(shared, wide)


def latent(layer):
    rank, rope, nope, value, q = 128, 16, 32, 32, 128
    config.update(architectures=["DeepseekV3ForCausalLM"], kv_lora_rank=rank, qk_rope_head_dim=rope, qk_nope_head_dim=nope,
                  v_head_dim=value, q_lora_rank=q, n_routed_experts=experts, n_shared_experts=1, n_group=2, topk_group=1,
                  routed_scaling_factor=1.5, first_k_dense_replace=1 if sparse else 2, num_nextn_predict_layers=1)
    part = {"q_a_proj": [q, hidden], "q_b_proj": [heads * (nope + rope), q], "kv_a_proj_with_mqa": [rank + rope, hidden],
            "kv_b_proj": [heads * (nope + value), rank], "o_proj": [hidden, heads * value], "q_a_layernorm": [q],
            "kv_a_layernorm": [rank]}
    part = {f"self_attn.{k}.weight": v for k, v in part.items()}
    if layer == 2:
        return {"enorm.weight": [hidden], "eh_proj.weight": [hidden, 2 * hidden]}
    return part | (mlp("mlp", ffn) if layer == 0 or not sparse else
                   mixture("mlp.shared_experts") | {"mlp.gate.e_score_correction_bias": [experts]})


def hybrid(layer):
    kd, vd, kh, vh, taps = 32, 32, 2, 4, 4
    config.update(architectures=["Qwen3NextForCausalLM"], linear_key_head_dim=kd, linear_value_head_dim=vd,
                  linear_num_key_heads=kh, linear_num_value_heads=vh, linear_conv_kernel_dim=taps, num_key_value_heads=2,
                  full_attention_interval=2, head_dim=dim, num_experts=experts, shared_expert_intermediate_size=wide,
                  partial_rotary_factor=0.25)
    mixed = 2 * kd * kh + vd * vh
    part = {"linear_attn.in_proj_qkvz.weight": [mixed + vd * vh, hidden], "linear_attn.in_proj_ba.weight": [2 * vh, hidden],
            "linear_attn.conv1d.weight": [mixed, 1, taps], "linear_attn.A_log": [vh], "linear_attn.dt_bias": [vh],
            "linear_attn.norm.weight": [vd], "linear_attn.out_proj.weight": [hidden, vd * vh]}
    if layer == 1:
        part = {"q_proj": [2 * heads * dim, hidden], "k_proj": [2 * dim, hidden], "v_proj": [2 * dim, hidden],
                "o_proj": [hidden, heads * dim], "q_norm": [dim], "k_norm": [dim]}
        part = {f"self_attn.{k}.weight": v for k, v in part.items()}
    if not sparse:
        config["mlp_only_layers"] = [0, 1]
    more = mixture("mlp.shared_expert") | {"mlp.shared_expert_gate.weight": [1, hidden]} if sparse else mlp("mlp", ffn)
    return {} if layer == 2 else part | more


def short(layer):
    config.update(architectures=["Lfm2MoeForCausalLM"], num_key_value_heads=2, num_experts=experts, norm_eps=1e-6,
                  num_dense_layers=1 if sparse else 2, layer_types=["conv", "full_attention"], conv_L_cache=3)
    part = {"conv.in_proj": [3 * hidden, hidden], "conv.conv": [hidden, 1, 3], "conv.out_proj": [hidden, hidden]}
    if layer == 1:
        part = {"q_proj": [hidden, hidden], "k_proj": [2 * dim, hidden], "v_proj": [2 * dim, hidden],
                "out_proj": [hidden, hidden], "q_layernorm": [dim], "k_layernorm": [dim]}
        part = {"self_attn." + k: v for k, v in part.items()}
    part |= {"operator_norm": [hidden], "ffn_norm": [hidden]}
    dense = {"w1": [ffn, hidden], "w3": [ffn, hidden], "w2": [hidden, ffn]}
    for e in range(experts) if sparse and layer else ():
        part |= {f"feed_forward.experts.{e}.{k}": v for k, v in dense.items()}
    part |= {"feed_forward.gate": [experts, hidden]} if sparse and layer else \
        {"feed_forward." + k: v for k, v in dense.items()}
    part = {k + ".weight": v for k, v in part.items()}
    if sparse and layer:
        part["feed_forward.expert_bias"] = [experts]
    return {} if layer == 2 else part


def mamba(layer):
    mh, mp, groups, state, taps = 8, 32, 1, 16, 4
    config.update(architectures=["GraniteMoeHybridForCausalLM"], num_key_value_heads=2, num_experts=experts,
                  num_local_experts=experts if sparse else 0, shared_intermediate_size=ffn, intermediate_size=wide,
                  layer_types=["mamba", "attention"], position_embedding_type="nope", embedding_multiplier=2,
                  mamba_n_heads=mh, mamba_d_head=mp, mamba_n_groups=groups, mamba_d_state=state, mamba_d_conv=taps,
                  mamba_expand=2)
    mixed = mh * mp + 2 * groups * state
    part = {"mamba.in_proj.weight": [mh * mp + mixed + mh, hidden], "mamba.conv1d.weight": [mixed, 1, taps],
            "mamba.conv1d.bias": [mixed], "mamba.A_log": [mh], "mamba.D": [mh], "mamba.dt_bias": [mh],
            "mamba.norm.weight": [mh * mp], "mamba.out_proj.weight": [hidden, mh * mp]}
    if layer == 1:
        part = {"q_proj": [hidden, hidden], "k_proj": [2 * dim, hidden], "v_proj": [2 * dim, hidden],
                "o_proj": [hidden, hidden]}
        part = {f"self_attn.{k}.weight": v for k, v in part.items()}
    if sparse:
        part |= {"block_sparse_moe.input_linear.weight": [experts, 2 * wide, hidden],
                 "block_sparse_moe.output_linear.weight": [experts, hidden, wide],
                 "block_sparse_moe.router.layer.weight": [experts, hidden]}
    return {} if layer == 2 else part | {"shared_mlp.input_linear.weight": [2 * ffn, hidden],
                                         "shared_mlp.output_linear.weight": [hidden, ffn]}


def small(layer):
    """Gemma 4 as its small models are: two layers of four share keys and values (their own are there, and not read),
    all are told of tokens."""
    told, full, types = 128, 64, ["sliding_attention", "full_attention"]
    config.update(architectures=["Gemma4ForCausalLM"], num_hidden_layers=4, num_key_value_heads=2, head_dim=dim,
                  global_head_dim=full, layer_types=types * 2, sliding_window=32, num_kv_shared_layers=2,
                  use_double_wide_mlp=True, hidden_size_per_layer_input=told, vocab_size_per_layer_input=vocab,
                  hidden_activation="gelu_pytorch_tanh", rope_parameters={
                      types[0]: {"rope_type": "default", "rope_theta": 10000.0},
                      types[1]: {"rope_type": "proportional", "rope_theta": 1e6, "partial_rotary_factor": 0.25}})
    shapes.update({"model.embed_tokens_per_layer.weight": [vocab, 4 * told],
                   "model.per_layer_model_projection.weight": [4 * told, hidden],
                   "model.per_layer_projection_norm.weight": [told]})
    d = full if layer % 2 else dim
    part = {"self_attn.q_proj": [heads * d, hidden], "self_attn.k_proj": [2 * d, hidden], "self_attn.v_proj": [2 * d, hidden],
            "self_attn.o_proj": [hidden, heads * d], "self_attn.q_norm": [d], "self_attn.k_norm": [d],
            "per_layer_input_gate": [told, hidden], "per_layer_projection": [hidden, told]}
    part |= {k + "norm": [hidden] for k in ("input_layer", "post_attention_layer", "pre_feedforward_layer",
                                            "post_feedforward_layer", "post_per_layer_input_")}
    return {k + ".weight": v for k, v in part.items()} | mlp("mlp", ffn * (1 + layer // 2)) | {"layer_scalar": [1]}


make = {"gemma4_text": small, "deepseek_v3": latent, "qwen3_next": hybrid, "lfm2_moe": short, "granitemoehybrid": mamba}[kind]
for layer in range(4 if kind == "gemma4_text" else 3):
    part = make(layer)
    if part and layer < 2 and kind not in ("lfm2_moe", "gemma4_text"):
        part |= {"input_layernorm.weight": [hidden], "post_attention_layernorm.weight": [hidden]}
    shapes |= {f"model.layers.{layer}.{k}": v for k, v in part.items()}
if kind == "lfm2_moe":
    shapes["model.embedding_norm.weight"] = shapes.pop("model.norm.weight")
if kind == "qwen3_next":
    shapes["mtp.fc.weight"] = [hidden, 2 * hidden]
random.seed(kind)
head, body = {}, bytearray()
for name, shape in sorted(shapes.items()):
    count, begin = 1, len(body)
    for n in shape:
        count *= n
    one = 1.0 if len(shape) == 1 and ("norm" in name or "scalar" in name) and not (kind == "qwen3_next" and "linear_attn" not in name) else 0.0
    scale = 0.1 if len(shape) == 1 else 2.0 / shape[-1] ** 0.5
    values = [one + scale * random.uniform(-1, 1) for _ in range(count)]
    body += b"".join(struct.pack("<f", v)[2:] for v in values)
    head[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [begin, len(body)]}
os.mkdir(out)
for name in ("tokenizer.json", "tokenizer_config.json"):
    shutil.copy(os.path.join(probe, name), out)
json.dump(config, open(os.path.join(out, "config.json"), "w"))
text = json.dumps(head).encode()
text += b" " * (-len(text) % 8)
open(os.path.join(out, "model.safetensors"), "wb").write(struct.pack("<Q", len(text)) + text + body)
