"""Tiny models with scripted answers: the test chooses the token that follows each token, whatever the
context."""
import numpy as np

import mlb
import mlt

END = "<|im_end|>"


def one_hot_rows(columns_of_row, rows, columns):
    matrix = np.zeros((rows, columns), np.float32)
    for row, column in columns_of_row:
        matrix[row, column] = 1
    return matrix


def write(folder, name, words, follows, control=(), info=None, max_seq=1 << 20):
    """Writes NAME.mlb, .mlt and .json. The vocabulary is the 256 bytes, END and `words`; those of `control`
    and END are control tokens. `follows` is a list of (text, next text); END follows everything else."""
    import json

    texts = [bytes([i]) for i in range(256)] + [END.encode()] + [word.encode() for word in words]
    ids = {text: i for i, text in enumerate(texts)}
    vocab = (len(texts) + 31) // 32 * 32
    header = mlb.Header(
        dim=vocab,
        n_layers=1,
        n_heads=1,
        n_kv_heads=1,
        head_dim=32,
        hidden_dim=32,
        vocab=vocab,
        max_seq=max_seq,
        rope_theta=10000.0,
        norm_eps=1e-5,
        wtype=1,
        scale_f16=1,
    )
    header, flags = mlb.canonical(header)
    tensors = {key: np.zeros_like(value) for key, value in mlb.random_tensors(header, flags).items()}
    following = {ids[a.encode()]: ids[b.encode()] for a, b in follows}
    for key in tensors:
        if key.endswith("norm"):
            tensors[key][:] = 1
    tensors["tok_emb"] = one_hot_rows([(i, i) for i in range(vocab)], vocab, vocab)
    tensors["wcls"] = one_hot_rows([(following.get(i, 256), i) for i in range(len(texts))], vocab, vocab)
    mlb.write(folder / f"{name}.mlb", header, flags, tensors)
    added = {END.encode(), *(word.encode() for word in control)}
    mlt.write_mlt(
        folder / f"{name}.mlt",
        mlt.Tokenizer(mlt.BYTE_LEVEL, 0, -1, 256, [(mlt.ADDED if t in added else 0, t) for t in texts], []),
    )
    (folder / f"{name}.json").write_text(
        json.dumps(
            {
                "format": 1,
                "chat_template": "chatml",
                "end_ids": [256],
                "control_ids": sorted(ids[t] for t in added),
                **(info or {}),
            }
        )
    )
    return folder / name
