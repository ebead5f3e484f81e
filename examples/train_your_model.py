"""Your own training loop without a central server: four processes train a small CNN on MNIST digits.

torchrun --standalone --nproc-per-node 4 examples/train_your_model.py
torchrun --nnodes 4 --node-rank R --master-addr HOST --master-port 29500 --nproc-per-node 1 examples/train_your_model.py

Every process is an agent with a quarter of the data: one in four of the images, or with --heterogeneous only some of
the classes. It exchanges messages with its two neighbours on a ring while its forward and backward passes run.
"""

import argparse

import torch
import torch.distributed as dist
from torch import nn

import peerdescent
from peerdescent.data import digits_split, partition


def small_convolutional_net() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 8, 5, stride=2), nn.BatchNorm2d(8), nn.ReLU(),
        nn.Conv2d(8, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(144, 10),
    )  # fmt: skip


def accuracy(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> float:
    model.eval()
    with torch.no_grad():
        right = (model(images).argmax(dim=1) == labels).float().mean().item()
    model.train()
    return right


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--heterogeneous", action="store_true", help="every agent has only some of the digits")
    options = parser.parse_args()

    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    agent, agents = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(agent)

    digits = digits_split()
    shard = partition(digits.train_labels, agents, "label" if options.heterogeneous else "iid", seed=0)[agent]
    images, labels = (torch.from_numpy(part[shard]) for part in (digits.train_images, digits.train_labels))
    test_images, test_labels = torch.from_numpy(digits.test_images), torch.from_numpy(digits.test_labels)
    images, test_images = (part.reshape(-1, 1, 20, 20) for part in (images, test_images))

    model = small_convolutional_net()
    # The loop below is a standard PyTorch loop; only this optimizer is new.
    optimizer = peerdescent.optim.DSGPA(
        model.parameters(), f"ring:{agents}", lr=0.1, alpha=5, beta=1, gamma=0.7, power_on="direction", start="shared"
    )
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.epochs)

    for epoch in range(options.epochs):
        order = torch.randperm(len(images))
        with optimizer.join():  # shards may differ in size; without it, all agents need equally many batches
            for rows in order[: len(order) // 20 * 20].view(-1, 20):
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(images[rows]), labels[rows])
                loss.backward()
                optimizer.step()
        schedule.step()
        with optimizer.averaged(model):  # the mean over the agents, including buffers
            mean = accuracy(model, test_images, test_labels)
        if agent == 0:
            own = accuracy(model, test_images, test_labels)
            print(f"epoch {epoch + 1}: agent 0 {own:.1%}, mean model {mean:.1%}", flush=True)

    if agent == 0:
        print(f"agent 0 sent {optimizer.bytes_sent() / 1e6:.1f} MB")
    optimizer.wait()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
