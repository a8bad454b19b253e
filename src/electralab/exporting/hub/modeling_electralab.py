"""Networks of electralab that no class of `transformers` has: `AutoModel.from_pretrained(…, trust_remote_code=True)`.

This file is a part of the model's folder and needs torch and transformers only. The architecture is ModernBERT's (norm
before each block, rotary positions, no biases) with what config.json adds to it under "electralab_network": normalised
queries and keys, a feed-forward without gate, a token table narrower than the states, a head of its own width.

B rows, T positions, D hidden size, H heads of K coordinates.
"""

import torch
import torch.nn.functional as F
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import (
    BaseModelOutput,
    MaskedLMOutput,
    QuestionAnsweringModelOutput,
    SequenceClassifierOutput,
    TokenClassifierOutput,
)


class ElectralabConfig(PreTrainedConfig):
    model_type = "electralab-modernbert"

    def __init__(self, electralab_network=None, **kwargs):
        super().__init__(**kwargs)
        self.electralab_network = electralab_network or {}


class Attention(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        size = encoder["hidden_size"]
        self.num_heads = encoder["num_heads"]
        self.head_size = size // self.num_heads
        self.dropout = encoder["attention_dropout"]
        self.qkv = nn.Linear(size, 3 * size, bias=False)
        self.output = nn.Linear(size, size, bias=False)
        has_norm = encoder["qk_norm"]
        self.query_norm = nn.RMSNorm(self.head_size, eps=1e-6) if has_norm else nn.Identity()
        self.key_norm = nn.RMSNorm(self.head_size, eps=1e-6) if has_norm else nn.Identity()

    def forward(self, hidden, cos, sin, may_attend):
        qkv = self.qkv(hidden).unflatten(-1, (3, self.num_heads, self.head_size))  # (B, T, 3, H, K)
        queries, keys, values = (part.transpose(1, 2) for part in qkv.unbind(2))  # (B, H, T, K) each
        queries = rotate(self.query_norm(queries), cos, sin)
        keys = rotate(self.key_norm(keys), cos, sin)
        dropout = self.dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(queries, keys, values, attn_mask=may_attend, dropout_p=dropout)
        return self.output(mixed.transpose(1, 2).flatten(2))


def rotate(vectors, cos, sin):
    """Coordinates i and i + K/2 are a pair that each position turns by its own angle."""
    first, second = vectors.chunk(2, dim=-1)
    return vectors * cos + torch.cat((-second, first), dim=-1) * sin


class FeedForward(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        size, width = encoder["hidden_size"], encoder["feedforward_size"]
        self.is_gated, self.dropout = encoder["gated_feedforward"], encoder["dropout"]
        self.up = nn.Linear(size, 2 * width if self.is_gated else width, bias=False)
        self.down = nn.Linear(width, size, bias=False)

    def forward(self, hidden):
        risen = self.up(hidden)
        if self.is_gated:
            activated, gate = risen.chunk(2, dim=-1)
            risen = F.gelu(activated) * gate
        else:
            risen = F.gelu(risen)
        return self.down(F.dropout(risen, self.dropout, self.training))


class Layer(nn.Module):
    def __init__(self, encoder, index):
        super().__init__()
        size, eps = encoder["hidden_size"], encoder["norm_eps"]
        self.is_local = bool(encoder["local_attention"]) and index % encoder["global_every"] != 0
        self.dropout = encoder["attention_dropout"]
        # The embeddings end with a norm, so the first layer has none.
        self.attention_norm = nn.Identity() if index == 0 else nn.LayerNorm(size, eps=eps, bias=False)
        self.attention = Attention(encoder)
        self.feedforward_norm = nn.LayerNorm(size, eps=eps, bias=False)
        self.feedforward = FeedForward(encoder)

    def forward(self, hidden, cos, sin, may_attend):
        attended = self.attention(self.attention_norm(hidden), cos, sin, may_attend)
        hidden = hidden + F.dropout(attended, self.dropout, self.training)
        return hidden + self.feedforward(self.feedforward_norm(hidden))


class Embeddings(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        narrow, size = encoder["embedding_size"], encoder["hidden_size"]
        self.dropout = encoder["dropout"]
        self.tokens = nn.Embedding(encoder["vocab_size"], narrow)
        self.projection = nn.Linear(narrow, size, bias=False) if narrow != size else nn.Identity()
        self.norm = nn.LayerNorm(size, eps=encoder["norm_eps"], bias=False)

    def forward(self, input_ids):
        return F.dropout(self.norm(self.projection(self.tokens(input_ids))), self.dropout, self.training)


class Encoder(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.settings = encoder
        self.embeddings = Embeddings(encoder)
        self.layers = nn.ModuleList(Layer(encoder, index) for index in range(encoder["num_layers"]))
        self.final_norm = nn.LayerNorm(encoder["hidden_size"], eps=encoder["norm_eps"], bias=False)

    def forward(self, input_ids, attention_mask=None):
        """(B, T) ids -> the (B, T, D) states of the embeddings, of each layer, and of all layers normed."""
        length, device = input_ids.shape[1], input_ids.device
        may_attend = None if attention_mask is None else attention_mask.bool()[:, None, None, :]
        positions = torch.arange(length, device=device)
        window = self.settings["local_attention"]
        is_near = (positions[:, None] - positions).abs() <= window // 2
        angles = {name: self.rotary(positions, self.settings[f"{name}_rope_theta"]) for name in ("global", "local")}
        states = [self.embeddings(input_ids)]
        for layer in self.layers:
            cos, sin = angles["local" if layer.is_local else "global"]
            mask = may_attend
            if layer.is_local:
                mask = is_near if may_attend is None else is_near & may_attend
            states.append(layer(states[-1], cos, sin, mask))
        return [*states, self.final_norm(states[-1])]

    def rotary(self, positions, theta):
        size = self.settings["hidden_size"] // self.settings["num_heads"]
        frequencies = 1.0 / theta ** (torch.arange(0, size, 2, device=positions.device).float() / size)
        angles = positions[:, None].float() * frequencies
        angles = torch.cat((angles, angles), dim=-1)  # (T, K)
        return angles.cos(), angles.sin()


class ElectralabPreTrainedModel(PreTrainedModel):
    config_class = ElectralabConfig
    base_model_prefix = ""
    supports_gradient_checkpointing = False
    _no_split_modules = ("Layer",)

    def __init__(self, config):
        super().__init__(config)
        self.network = config.electralab_network
        self.encoder = Encoder(self.network["encoder"])

    def _init_weights(self, module):
        """For heads that a folder does not hold."""
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=self.network["encoder"]["init_std"])
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def get_input_embeddings(self):
        return self.encoder.embeddings.tokens

    def set_input_embeddings(self, value):
        self.encoder.embeddings.tokens = value


class ElectralabModel(ElectralabPreTrainedModel):
    """The encoder alone. A folder's head is left out, which transformers says when it loads."""

    def __init__(self, config):
        super().__init__(config)
        self.post_init()

    def forward(self, input_ids, attention_mask=None, output_hidden_states=None, return_dict=None, **_):
        *states, last = self.encoder(input_ids, attention_mask)
        return BaseModelOutput(last_hidden_state=last, hidden_states=tuple(states) if output_hidden_states else None)


class MaskedLMHead(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        size = encoder["embedding_size" if encoder["own_head_projection"] else "hidden_size"]
        self.dense = nn.Linear(encoder["hidden_size"], size, bias=False)
        self.norm = nn.LayerNorm(size, eps=encoder["norm_eps"], bias=False)
        self.bias = nn.Parameter(torch.zeros(encoder["vocab_size"]))

    def forward(self, states, embeddings):
        states = self.norm(F.gelu(self.dense(states)))
        if states.shape[-1] != embeddings.tokens.weight.shape[-1]:
            states = states @ embeddings.projection.weight  # back to the width of the table
        return F.linear(states, embeddings.tokens.weight, self.bias)


class ElectralabForMaskedLM(ElectralabPreTrainedModel):
    """The generator."""

    def __init__(self, config):
        super().__init__(config)
        self.head = MaskedLMHead(self.network["encoder"])
        self.post_init()

    def forward(self, input_ids, attention_mask=None, labels=None, return_dict=None, **_):
        logits = self.head(self.encoder(input_ids, attention_mask)[-1], self.encoder.embeddings)  # (B, T, V)
        loss = None if labels is None else F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return MaskedLMOutput(loss=loss, logits=logits)


class ReplacedTokenHead(nn.Module):
    def __init__(self, encoder, kind, adds_cls):
        super().__init__()
        size, self.adds_cls = encoder["hidden_size"], adds_cls
        is_plain = kind == "linear"
        self.dense = None if is_plain else nn.Linear(size, size, bias=False)
        self.norm = None if is_plain else nn.LayerNorm(size, eps=encoder["norm_eps"], bias=False)
        self.verdict = nn.Linear(size, 1)

    def forward(self, states):
        if self.adds_cls:
            states = states + states[:, :1]
        if self.dense is not None:
            states = self.norm(F.gelu(self.dense(states)))
        return self.verdict(states).squeeze(-1)


class ElectralabForPreTraining(ElectralabPreTrainedModel):
    """The discriminator: a logit for each token, above 0 where it looks replaced."""

    def __init__(self, config):
        super().__init__(config)
        network = self.network
        self.head = ReplacedTokenHead(network["encoder"], network["verdict_head"], network["verdict_adds_cls"])
        self.post_init()

    def forward(self, input_ids, attention_mask=None, labels=None, return_dict=None, **_):
        logits = self.head(self.encoder(input_ids, attention_mask)[-1])  # (B, T)
        loss = None
        if labels is not None:
            per_token = F.binary_cross_entropy_with_logits(logits, labels.float(), reduction="none")
            weights = torch.ones_like(per_token) if attention_mask is None else attention_mask.to(per_token.dtype)
            loss = (per_token * weights).sum() / weights.sum()
        return TokenClassifierOutput(loss=loss, logits=logits)


class TaskHead(nn.Module):
    def __init__(self, encoder, head, num_outputs):
        super().__init__()
        size, self.dropout = encoder["hidden_size"], head["dropout"]
        is_deep = head["style"] == "huggingface"
        self.dense = nn.Linear(size, size, bias=False) if is_deep else None
        self.norm = nn.LayerNorm(size, eps=encoder["norm_eps"], bias=False) if is_deep else None
        self.output = nn.Linear(size, num_outputs)
        self.answerable = nn.Linear(size, 1) if head["has_answerability"] else None

    def forward(self, states):
        if self.dense is not None:
            states = self.norm(F.gelu(self.dense(states)))
        return self.output(F.dropout(states, self.dropout, self.training))


class ElectralabTaskModel(ElectralabPreTrainedModel):
    """What the three below have in common."""

    def __init__(self, config):
        super().__init__(config)
        # A discriminator's or generator's folder, to be tuned here, has no such head yet.
        released = {"style": "released", "pooling": "mean", "dropout": 0.1, "has_answerability": False}
        self.task = self.network.get("head", released)
        self.head = TaskHead(self.network["encoder"], self.task, self.count_outputs(config))
        self.post_init()

    def count_outputs(self, config):
        return config.num_labels

    def answer(self, input_ids, attention_mask):
        return self.head(self.encoder(input_ids, attention_mask)[-1])


class ElectralabForSequenceClassification(ElectralabTaskModel):
    def forward(self, input_ids, attention_mask=None, labels=None, return_dict=None, **_):
        states = self.encoder(input_ids, attention_mask)[-1]
        is_token = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        if self.task["pooling"] == "first":
            pooled = states[:, 0]
        else:
            weights = is_token[..., None].to(states.dtype)
            pooled = (states * weights).sum(dim=1) / weights.sum(dim=1)
        logits = self.head(pooled)
        # A number is origin + unit * output: the head began at the mean of what it had to learn.
        logits = self.task.get("origin", 0.0) + self.task.get("unit", 1.0) * logits
        loss = None
        if labels is not None:
            is_number = self.config.num_labels == 1
            loss = F.mse_loss(logits.squeeze(-1), labels.float()) if is_number else F.cross_entropy(logits, labels)
        return SequenceClassifierOutput(loss=loss, logits=logits)


class ElectralabForTokenClassification(ElectralabTaskModel):
    def forward(self, input_ids, attention_mask=None, labels=None, return_dict=None, **_):
        logits = self.answer(input_ids, attention_mask)
        loss = None if labels is None else F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return TokenClassifierOutput(loss=loss, logits=logits)


class ElectralabForQuestionAnswering(ElectralabTaskModel):
    def count_outputs(self, config):
        return 2

    def forward(self, input_ids, attention_mask=None, start_positions=None, end_positions=None, return_dict=None, **_):
        start, end = self.answer(input_ids, attention_mask).unbind(-1)
        loss = None
        if start_positions is not None and end_positions is not None:
            loss = (F.cross_entropy(start, start_positions) + F.cross_entropy(end, end_positions)) / 2
        return QuestionAnsweringModelOutput(loss=loss, start_logits=start, end_logits=end)
