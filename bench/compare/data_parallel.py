#!/usr/bin/env python3
"""PyTorch's side of processes.py: a model of training.py, trained by one process or by several.

Several processes train with DistributedDataParallel over gloo and loopback. Each takes a part of the rows of the batch,
and all begin with the same weights. The first ten updates are not timed. Prints one line of JSON: the tokens a second of
every few updates, a hash of the weights after the ten updates, and the number of weights.

  bench/compare/data_parallel.py --model gpt --processes 2 --threads 1 [--updates 20] [--log 4] [--weights FILE]
"""
import argparse
import datetime
import hashlib
import json
import os
import pathlib
import socket
import sys
import time

import peers
import training

WARM_UP = 10


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def work(rank, arguments, port):
    import torch
    from torch import distributed

    torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    model, batch, loss, optimizer = training.MODELS[arguments.model]()
    tokens, step = batch[-1].numel(), training.torch_step(model, batch, loss, optimizer)
    if arguments.processes > len(batch[0]):
        sys.exit(f"data_parallel.py: at most a process for each of the {len(batch[0])} rows of a batch; "
                 f"found {arguments.processes}")
    if arguments.processes > 1:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
        distributed.init_process_group("gloo", rank=rank, world_size=arguments.processes,
                                       timeout=datetime.timedelta(minutes=5))
        part = [whole.tensor_split(arguments.processes)[rank] for whole in batch]
        # The loss is a mean over a part, and DDP divides the sum of the gradients by the number of processes. Weighted by
        # rows, the result is the gradient of the mean over the whole batch. The weight of an equal part is 1.
        weight = len(part[0]) * arguments.processes / len(batch[0])
        replica = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
        step = training.torch_step(replica, part, lambda *inputs: weight * loss(*inputs), optimizer)
    for _ in range(WARM_UP):
        step()
    weights = b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters())
    if rank == 0 and arguments.weights:
        pathlib.Path(arguments.weights).write_bytes(weights)
    rates = []
    for _ in range(arguments.updates // arguments.log):
        if arguments.processes > 1:
            distributed.barrier()
        begin = time.perf_counter()
        for _ in range(arguments.log):
            step()
        rates.append(arguments.log * tokens / (time.perf_counter() - begin))
    if arguments.processes > 1:
        distributed.destroy_process_group()
    if rank == 0:
        print(json.dumps({"tokens_per_second": rates, "weights": hashlib.sha256(weights).hexdigest()[:12],
                          "parameters": len(weights) // 4}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=training.MODELS, default="gpt")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1, help="of each process")
    parser.add_argument("--updates", type=int, default=20, help="timed updates")
    parser.add_argument("--log", type=int, default=4, help="updates that are timed together")
    parser.add_argument("--weights", help="write the weights after the ten updates into this file")
    arguments = parser.parse_args()
    peers.run_inside(__file__)
    os.environ["OMP_NUM_THREADS"] = str(arguments.threads)  # read when torch is loaded
    if arguments.processes == 1:
        work(0, arguments, None)
    else:
        from torch import multiprocessing

        multiprocessing.spawn(work, (arguments, free_port()), arguments.processes)


if __name__ == "__main__":
    main()
