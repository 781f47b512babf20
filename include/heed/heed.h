// All of heed. Start with attention.h. The headers stand in the order of the layers, each built on those above it.
#pragma once

// clang-format off
#include "heed/error.h"             // the one exception type
#include "heed/cpu.h"               // the machine, its kernels, threads
#include "heed/memory.h"            // memory held by tensors
#include "heed/distributed.h"       // ranks of many processes, and messages between them
#include "heed/tensor.h"            // typed, strided views of shared memory
#include "heed/io.h"                // safetensors, .npy, .npz
#include "heed/text.h"              // tokenizers
#include "heed/ops.h"               // mathematics on tensors, forward and backward
#include "heed/attention.h"         // attention and its gradient
#include "heed/attention_variants.h"// ragged batches, additive attention, kernel regression
#include "heed/kv_cache.h"          // keys and values kept for decoding
#include "heed/distributed_attention.h"  // attention over a sequence of which each rank holds a part
#include "heed/autograd.h"          // values that know their gradients
#include "heed/nn.h"                // modules with named parameters
#include "heed/probe.h"             // what a model computes, seen and changed
#include "heed/models.h"            // encoder-decoder, decoder-only, encoder-only
#include "heed/generate.h"          // greedy, beam, sampling
#include "heed/inspect.h"           // pictures of who attends to whom
#include "heed/train.h"             // training, checkpoints, BLEU
#include "heed/pipelines.h"         // text in, text out: a model paired with its tokenizers
// clang-format on
