"""Layers, their gradients and optimisers by PyTorch: writes layers.safetensors beside it, which _layers.lua
reads. All in f64, small. python3 tests/lua/make_layers.py"""
import torch
import torch.nn as nn
import torch.nn.functional as F

from torch_cases import *

torch.manual_seed(5)


# ---- recurrent layers
def with_state(m, x, *state):
    return m(x, tuple(state) if len(state) > 1 else state[0])


case("rnn", nn.RNN(3, 4), [R(5, 2, 3)])
case("rnn_relu", nn.RNN(3, 4, 2, nonlinearity="relu", bias=False), [R(4, 2, 3), R(2, 2, 4)], with_state)
case("lstm", nn.LSTM(3, 4), [R(5, 2, 3)])
case("lstm_wide", nn.LSTM(3, 4, 2, batch_first=True, bidirectional=True), [R(2, 5, 3), R(4, 2, 4), R(4, 2, 4)], with_state)
case("lstm_single", nn.LSTM(3, 4, bias=False), [R(5, 3), R(1, 4), R(1, 4)], with_state)
case("gru", nn.GRU(3, 4), [R(5, 2, 3)])
case("gru_wide", nn.GRU(3, 4, 2, bidirectional=True), [R(5, 2, 3), R(4, 2, 4)], with_state)
case("gru_single", nn.GRU(3, 4, bias=False), [R(5, 3)])
case("rnn_cell", nn.RNNCell(3, 4), [R(2, 3), R(2, 4)])
case("lstm_cell", nn.LSTMCell(3, 4), [R(2, 3), R(2, 4), R(2, 4)], with_state)
case("gru_cell", nn.GRUCell(3, 4), [R(3), R(4)])

# ---- attention
def attention(causal=False, **o):
    return lambda m, q, k, v: m(q, k, v, need_weights=False, **o)


def pad(*rows):
    return torch.tensor(rows, dtype=torch.bool)


hidden = torch.rand(3, 5) < 0.3
hidden[:, 0] = False
added = R(3, 5)
case("attention", nn.MultiheadAttention(8, 2), [R(3, 2, 8), R(5, 2, 8), R(5, 2, 8)], attention())
case("attention_self", nn.MultiheadAttention(8, 2, batch_first=True), [R(2, 3, 8)], lambda m, x: m(x, x, x, need_weights=True))
case("attention_wide", nn.MultiheadAttention(8, 2, bias=False, kdim=3, vdim=5, batch_first=True),
     [R(2, 3, 8), R(2, 5, 3), R(2, 5, 5)], attention())
case("attention_single", nn.MultiheadAttention(8, 2), [R(3, 8), R(5, 8), R(5, 8)], attention())
case("attention_masks", nn.MultiheadAttention(8, 2), [R(3, 2, 8), R(5, 2, 8), hidden, pad([0, 0, 0, 1, 1], [0, 0, 0, 0, 0])],
     lambda m, q, k, hide, padding: m(q, k, k, attn_mask=hide, key_padding_mask=padding, need_weights=True))
case("attention_added", nn.MultiheadAttention(8, 2), [R(3, 2, 8), R(5, 2, 8), added.expand(4, 3, 5) * 1, pad([0, 0, 0, 0, 1], [0, 0, 0, 0, 0])],
     lambda m, q, k, mask, padding: m(q, k, k, attn_mask=mask, key_padding_mask=torch.where(padding, -torch.inf, 0.0), need_weights=False))
for name, s, t in ("left_wide", 3, 5), ("left_high", 5, 3), ("left_square", 4, 4):
    case("attention_" + name, None, [R(2, 2, s, 4), R(2, 2, t, 4), R(2, 2, t, 4)],
         lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True))
case("attention_spread", None, [R(2, 2, 3, 4), R(2, 2, 5, 4), R(2, 2, 5, 4), R(2, 1, 1, 5)],
     lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, attn_mask=mask))
case("encoder_layer", nn.TransformerEncoderLayer(8, 2, 12, 0.0), [R(3, 2, 8)])
case("encoder_first", nn.TransformerEncoderLayer(8, 2, 12, 0.0, "gelu", batch_first=True, norm_first=True, bias=False), [R(2, 3, 8), pad([0, 0, 1], [0, 0, 0])],
     lambda m, x, padding: m(x, src_mask=nn.Transformer.generate_square_subsequent_mask(3), src_key_padding_mask=torch.where(padding, -torch.inf, 0.0)))
case("decoder_layer", nn.TransformerDecoderLayer(8, 2, 12, 0.0), [R(3, 2, 8), R(4, 2, 8)],
     lambda m, x, y: m(x, y, tgt_mask=nn.Transformer.generate_square_subsequent_mask(3)))
case("encoder", nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 12, 0.0), 2, nn.LayerNorm(8), enable_nested_tensor=False), [R(3, 2, 8)])
case("decoder", nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 12, 0.0, norm_first=True), 2), [R(3, 2, 8), R(4, 2, 8)])

# ---- optimisers
O = torch.optim
steps("RMSprop", lambda p: O.RMSprop(p, 0.01))
steps("RMSprop_all", lambda p: O.RMSprop(p, 0.01, 0.9, 1e-6, 0.1, 0.8, True))
steps("Adagrad", lambda p: O.Adagrad(p, 0.1))
steps("Adagrad_all", lambda p: O.Adagrad(p, 0.1, lr_decay=0.2, weight_decay=0.1, initial_accumulator_value=0.5, eps=1e-6))
steps("NAdam", lambda p: O.NAdam(p, 0.01))
steps("NAdam_all", lambda p: O.NAdam(p, 0.01, (0.8, 0.99), 1e-6, 0.1, 0.01, True))
steps("RAdam", lambda p: O.RAdam(p, 0.01))
steps("RAdam_all", lambda p: O.RAdam(p, 0.01, (0.8, 0.9), 1e-6, 0.1))
steps("RAdam_decoupled", lambda p: O.RAdam(p, 0.01, (0.8, 0.9), 1e-6, 0.1, True))
steps("groups", lambda g: O.AdamW(g, 0.01, weight_decay=0.1), [{}, {"lr": 0.1, "weight_decay": 0.0, "betas": (0.8, 0.9)}])

# ---- convolutions, pools, embeddings, activations
case("conv_same", nn.Conv2d(3, 4, (3, 2), padding="same", dilation=(2, 1)), [R(2, 3, 5, 6)])
case("conv_places", nn.Conv1d(4, 6, 3, 2, 1, 1, 2, False), [R(2, 4, 7)])
for mode in "reflect", "replicate", "circular":
    case("conv_" + mode, nn.Conv2d(2, 3, 3, padding=(1, 2), padding_mode=mode), [R(1, 2, 4, 5)])
case("conv_transpose", nn.ConvTranspose2d(4, 6, 3, 2, 1, 1, 2, False), [R(2, 4, 3, 4)])
case("max_ceil", nn.MaxPool2d(3, 2, 1, ceil_mode=True), [R(1, 2, 6, 8)])
case("max_ceil_wide", nn.MaxPool2d((2, 3), (3, 2), (0, 1), (2, 1), ceil_mode=True), [R(1, 2, 6, 7)])
case("avg_ceil", nn.AvgPool2d(3, 2, 1, True), [R(1, 2, 6, 7)])
case("avg_ceil_inside", nn.AvgPool2d(3, 2, 1, True, False), [R(1, 2, 6, 8)])
case("avg_ceil_1d", nn.AvgPool1d(4, 3, 2, True), [R(2, 2, 9)])
case("avg_ceil_3d", nn.AvgPool3d(2, 2, 0, True), [R(1, 2, 3, 4, 5)])
case("avg_ceil_narrow", nn.AvgPool1d(5, 4, 0, True), [R(1, 1, 3 + 3)])
case("embedding_padding", nn.Embedding(5, 3, padding_idx=2), [torch.tensor([[0, 2, 4], [2, 2, 1]])])
index = torch.tensor([[0, 2, 4], [2, 2, 2], [1, 1, 3]])
flat, offsets = torch.tensor([0, 2, 4, 2, 1, 1, 3]), torch.tensor([0, 3, 3, 4])
for mode in "sum", "mean", "max":
    case("bag_" + mode, nn.EmbeddingBag(5, 3, mode=mode), [index])
    case("bag_padding_" + mode, nn.EmbeddingBag(5, 3, mode=mode, padding_idx=2), [index])
    case("bag_offsets_" + mode, nn.EmbeddingBag(5, 3, mode=mode), [flat, offsets])
case("bag_last", nn.EmbeddingBag(5, 3, mode="sum", include_last_offset=True), [flat, torch.tensor([0, 3, 3, 7])])
case("bag_weights", nn.EmbeddingBag(5, 3, mode="sum"), [flat, offsets, R(7)], lambda m, i, o, w: m(i, o, per_sample_weights=w))
case("layernorm_plain", nn.LayerNorm((2, 4), 1e-3, False), [R(3, 2, 4)])
case("layernorm_scale", nn.LayerNorm(4, bias=False), [R(3, 4)])
case("rmsnorm", nn.RMSNorm(4, 1e-3), [R(3, 4)])
case("batchnorm_plain", nn.BatchNorm2d(2, 1e-3, 0.3, False), [R(3, 2, 4, 2)])
case("batchnorm_batch", nn.BatchNorm1d(2, track_running_stats=False).eval(), [R(5, 2)])
case("groupnorm_plain", nn.GroupNorm(2, 4, 1e-3, False), [R(2, 4, 3)])
case("gelu_tanh", nn.GELU("tanh"), [R(7)])
case("leaky_relu", nn.LeakyReLU(0.2), [R(7)])
case("elu", nn.ELU(0.5), [R(7)])
case("softplus", nn.Softplus(2, 1), [R(9)])
case("prelu", nn.PReLU(3), [R(2, 3, 4)])
case("prelu_one", nn.PReLU(), [R(5)])
case("flatten", nn.Flatten(1, 2), [R(2, 3, 4, 2)])
case("upsample", nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True), [R(1, 2, 3, 4)])

# ---- schedules: the rates of 40 steps; averages
S = torch.optim.lr_scheduler


def rates(name, make, lr=0.5, count=40, feed=None):
    opt = O.SGD([nn.Parameter(R(1))], lr)
    sched, got = make(opt), []
    for i in range(count):
        got.append(opt.param_groups[0]["lr"])
        opt.step()
        sched.step(*(feed(i),) if feed else ())
    put("rates/" + name, torch.tensor(got))


rates("cosine", lambda o: S.CosineAnnealingLR(o, 39, 0.1))
rates("linear", lambda o: S.LinearLR(o, 1, 0.2, 30))
rates("polynomial", lambda o: S.PolynomialLR(o, 30, 2.5))
rates("step", lambda o: S.StepLR(o, 7, 0.3))
rates("multistep", lambda o: S.MultiStepLR(o, [3, 10, 11], 0.5))
rates("exponential", lambda o: S.ExponentialLR(o, 0.9))
rates("restarts", lambda o: S.CosineAnnealingWarmRestarts(o, 5, 2, 0.05))
rates("restarts_equal", lambda o: S.CosineAnnealingWarmRestarts(o, 7))
rates("cyclic", lambda o: S.CyclicLR(o, 0.1, 0.5, 4, 7, "exp_range", 0.95, cycle_momentum=False))
rates("one_cycle", lambda o: S.OneCycleLR(o, 0.5, 40, cycle_momentum=False))
rates("one_cycle_linear", lambda o: S.OneCycleLR(o, 0.5, 40, pct_start=0.2, anneal_strategy="linear", div_factor=5, final_div_factor=50, cycle_momentum=False))
losses = [1, 0.9, 0.95, 0.95, 0.95, 0.95, 0.9, 0.9, 0.8, 0.9, 0.9, 0.9, 0.9, 0.79999, 0.9, 0.9, 0.9, 0.7] + [0.8] * 22
put("plateau/losses", torch.tensor(losses))
rates("plateau", lambda o: S.ReduceLROnPlateau(o, factor=0.5, patience=2, cooldown=1, min_lr=0.01), feed=lambda i: losses[i])
rates("plateau_max", lambda o: S.ReduceLROnPlateau(o, "max", factor=0.5, patience=3, threshold=0.01), feed=lambda i: losses[i])

mean = O.swa_utils.AveragedModel(model := nn.Sequential(nn.Linear(2, 2, bias=False), nn.BatchNorm1d(2)))
put("swa/batches", batches := R(3, 5, 2))
for k in range(4):
    with torch.no_grad():
        model[0].weight.copy_(R(2, 2))
    put(f"swa/weight/{k}", model[0].weight)
    mean.update_parameters(model)
put("swa/mean", mean.module[0].weight)
O.swa_utils.update_bn(batches, mean)
put("swa/running_mean", mean.module[1].running_mean), put("swa/running_var", mean.module[1].running_var)

# ---- sequences of unequal length
def packed(m, x, lengths, *state):
    first = m.batch_first
    p = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=first, enforce_sorted=False)
    y, last = m(p, *([tuple(state) if len(state) > 1 else state[0]] if state else []))
    return nn.utils.rnn.pad_packed_sequence(y, batch_first=first, total_length=x.shape[int(first)])[0], last


lengths = torch.tensor([3, 5, 1])
case("rnn_packed", nn.RNN(3, 4), [R(5, 3, 3), lengths], packed)
case("gru_packed", nn.GRU(3, 4, 2, batch_first=True, bidirectional=True), [R(3, 6, 3), lengths, R(4, 3, 4)], packed)
case("lstm_packed", nn.LSTM(3, 4, 2, bidirectional=True), [R(5, 3, 3), lengths, R(4, 3, 4), R(4, 3, 4)], packed)
a, b, c = R(3, 2), R(5, 2), R(1, 2)
case("pad_sequence", None, [a, b, c], lambda *l: nn.utils.rnn.pad_sequence(l, padding_value=0.5))
case("pad_sequence_first", None, [a, b, c], lambda *l: nn.utils.rnn.pad_sequence(l, batch_first=True))

# ---- losses
def loss(name, module, *inputs):
    """Of inputs that are no parameters of the layer: its weights go along."""
    case("loss_" + name, None, inputs, lambda *xs: module(*xs))


w, classes = torch.rand(4) + 0.5, torch.tensor([0, 3, 1, 3, 2])
put("loss/weight", w)
probs, some = torch.softmax(R(5, 4), 1), torch.tensor([0, -100, 1, 3, -100])
for red in "mean", "sum", "none":
    loss("ce_weight_" + red, nn.CrossEntropyLoss(w, reduction=red), R(5, 4), classes)
    loss("ce_smooth_" + red, nn.CrossEntropyLoss(w, label_smoothing=0.2, reduction=red), R(5, 4), some)
    loss("ce_probs_" + red, nn.CrossEntropyLoss(w, label_smoothing=0.2, reduction=red), R(5, 4), probs)
    loss("nll_weight_" + red, nn.NLLLoss(w, ignore_index=3, reduction=red), R(5, 4), classes)
    loss("bce_logits_" + red, nn.BCEWithLogitsLoss(w, pos_weight=w * 2, reduction=red), R(5, 4), probs)
    loss("bce_" + red, nn.BCELoss(w, reduction=red), probs, torch.rand(5, 4))
    loss("smooth_l1_" + red, nn.SmoothL1Loss(reduction=red, beta=0.4), R(5, 4), R(5, 4))
    loss("kl_" + red, nn.KLDivLoss(reduction=red, log_target=True), R(5, 4), torch.log_softmax(R(5, 4), 1))
loss("ce_plain", nn.CrossEntropyLoss(label_smoothing=0.1), R(5, 4), some)
loss("ce_image", nn.CrossEntropyLoss(w), R(2, 4, 3, 2), torch.randint(0, 4, (2, 3, 2)))
loss("ce_image_probs", nn.CrossEntropyLoss(w), R(2, 4, 3), torch.softmax(R(2, 4, 3), 1))
loss("nll_plain", nn.NLLLoss(), R(5, 4), some)
loss("huber", nn.HuberLoss(delta=0.7), R(5, 4), R(5, 4))
loss("l1_zero", nn.SmoothL1Loss(beta=0), R(5, 4), R(5, 4))
labels = torch.tensor([[1, 2, 2, 4], [3, 3, 0, 0], [1, 4, 2, 0], [2, 0, 0, 0]])
steps_, sizes = torch.tensor([9, 8, 3, 5]), torch.tensor([4, 2, 3, 0])
for red in "mean", "sum", "none":
    case("ctc_" + red, None, [R(9, 4, 5), labels, steps_, sizes],
         lambda x, t, a, b, red=red: F.ctc_loss(torch.log_softmax(x, 2), t, a, b, reduction=red))
case("ctc_blank", None, [R(9, 4, 5), labels * 0 + torch.tensor([1, 2, 1, 0]), torch.tensor([9, 9, 8, 7]), sizes],
     lambda x, t, a, b: F.ctc_loss(torch.log_softmax(x, 2), t, a, b, blank=4))
case("ctc_far", None, [R(6, 4, 5), labels, torch.tensor([4, 2, 6, 6]), sizes],
     lambda x, t, a, b: F.ctc_loss(torch.log_softmax(x, 2), t, a, b, zero_infinity=True))

# ---- images at places
for mode in "bilinear", "nearest":
    for outside in "zeros", "border", "reflection":
        for corners in False, True:
            case(f"grid_{mode}_{outside}_{corners}", None, [R(2, 3, 4, 5), R(2, 3, 2, 2) * 1.3],
                 lambda x, g, m=mode, o=outside, c=corners: F.grid_sample(x, g, m, o, c))

write("layers.safetensors")
