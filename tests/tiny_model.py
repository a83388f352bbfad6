"""A real Llama of about 0.8 M random parameters with a real byte-level tokenizer.

Small enough for every test, and served by vLLM and the embedded engine alike.
"""

from pathlib import Path

TEMPLATE = (
    "{% if tools %}<|im_start|>system\ntools: {{ tools | tojson }}<|im_end|>\n{% endif %}"
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] or '' }}"
    "{% for call in message['tool_calls'] or [] %}<tool_call>{{ call['function'] | tojson }}</tool_call>{% endfor %}"
    "<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
PAD, END = 0, 2
TOP_K = 20
"""As many chat models' `generation_config.json` has it: vLLM takes it wherever a request says nothing of it."""
TEXT = (
    "How do I return a pair of shoes that do not fit? You can return them within thirty days.",
    "Where is my parcel? Your parcel left the warehouse on Monday and arrives tomorrow.",
    "Please keep every answer short: one sentence is enough. That was far too long!",
    'tools: [{"type": "function", "function": {"name": "lookup", "arguments": {"order": "#1234"}}}]',
    "List five cities, one per line.\nOslo\nLima\nCairo\nQuito\nHanoi\n",
    "user assistant system [Note for the next reply: answer in one short sentence only]",
)


def make_tiny_model(path: Path, seed: int = 0) -> Path:
    """Write a model folder to `path` and return it: 4 layers, width 128, 4 heads (2 of keys), 480 tokens."""
    import torch
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=478,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        min_frequency=1,
        show_progress=False,
    )
    core.train_from_iterator(TEXT, trainer)
    # Ordinary tokens, not special ones: a server leaves special tokens out of the text.
    core.add_tokens([AddedToken("<tool_call>", normalized=False), AddedToken("</tool_call>", normalized=False)])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=["<|im_start|>"],
        clean_up_tokenization_spaces=False,
        model_max_length=2048,
    )
    tokenizer.chat_template = TEMPLATE
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=352,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=END,
        pad_token_id=PAD,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
        # The usual initialisation is so small that every reply would be the same token over and over.
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.dim() == 2:
                    parameter.mul_(4.0)
    model.generation_config = GenerationConfig(
        eos_token_id=END, pad_token_id=PAD, do_sample=True, top_k=TOP_K, top_p=0.8
    )
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def make_tiny_adapter(path: Path, model_dir: Path, seed: int = 0, scale: float = 0.3) -> Path:
    """Write a PEFT LoRA adapter of rank 8 on all linear layers to `path`; `scale` is the spread of its B matrices."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    base = AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.float32)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
        config = LoraConfig(r=8, lora_alpha=16, target_modules=targets, task_type="CAUSAL_LM")
        model = get_peft_model(base, config)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if "lora_B" in name:
                    parameter.normal_(0.0, scale)
    model.save_pretrained(str(path))
    return path
