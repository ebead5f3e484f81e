import threading

import torch.distributed as dist

from peerdescent.optim import barriers


def test_a_thread_is_in_a_barrier_for_as_long_as_the_call_takes(monkeypatch):
    """The barrier itself is a stand-in: two processes wait in a real one in test_unequal."""
    entered, leave, seen = threading.Event(), threading.Event(), []

    def barrier(group=None, async_op=False, device_ids=None):
        seen.append((group, async_op))
        entered.set()
        leave.wait(10)

    monkeypatch.setattr(dist, "barrier", barrier)
    monkeypatch.setattr(dist.distributed_c10d, "barrier", barrier)
    barriers.watch()
    thread = threading.Thread(target=lambda: dist.barrier(async_op=True))
    thread.start()
    assert entered.wait(10)
    call = barriers.call_in(thread.ident)
    assert call is not None
    assert barriers.call_in(threading.get_ident()) is None
    leave.set()
    thread.join()
    assert barriers.call_in(thread.ident) is None
    assert seen == [(None, True)]
    dist.barrier(object())  # of some of the processes
    assert len(seen) == 2
    assert barriers.call_in(threading.get_ident()) is None
