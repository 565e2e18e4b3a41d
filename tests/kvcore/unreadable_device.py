# mypy: disable-error-code="no-untyped-call"
"""A stand-in for a busy GPU: a device whose memory nobody can read, so that a path that reads it fails.

Tensors live on torch's ``meta`` device, which has shapes and dtypes but no values. On a GPU each of the operations
that fail here would wait until the device has finished everything queued before.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

if TYPE_CHECKING:
    from collections.abc import Iterator

UNREADABLE = torch.device("meta")

# Operations whose result's shape, or a host value, depends on values on the device.
_READS = {
    "_local_scalar_dense",
    "_unique2",
    "equal",
    "is_nonzero",
    "masked_select",
    "nonzero",
    "nonzero_static",
    "unique_consecutive",
    "unique_dim",
}
_COPIES = {"_to_copy", "copy_"}
_INDEXING = {"index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index"}


class DeviceReadError(AssertionError):
    """A guarded path made the host wait for the device."""


@contextmanager
def no_device_reads() -> Iterator[None]:
    """Raise DeviceReadError where code inside waits: reads, masks, blocking copies, uploads of Python values."""
    with ExitStack() as stack:
        stack.enter_context(_NoBlockingOperations())
        stack.enter_context(_NoUploadsOfPythonValues())
        yield


class _NoBlockingOperations(TorchDispatchMode):
    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        name = func.overloadpacket.__name__
        on_device = [tensor.device == UNREADABLE for tensor in tensors]
        if any(on_device) and name in _READS:
            raise DeviceReadError(f"{func} needs values that are on the device")
        if name in _INDEXING and any(on_device) and any(tensor.dtype == torch.bool for tensor in tensors[1:]):
            raise DeviceReadError(f"{func} with a mask: the device alone knows the number of results")
        devices = {*on_device, kwargs["device"] == UNREADABLE} if kwargs.get("device") else {*on_device}
        asynchronous = name in _COPIES and (kwargs.get("non_blocking") or any(arg is True for arg in args))
        if len(devices) > 1 and not asynchronous:
            raise DeviceReadError(f"{func} moves values between host and device and waits for it")
        return func(*args, **kwargs)


class _NoUploadsOfPythonValues(TorchFunctionMode):
    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in {torch.tensor, torch.as_tensor} and kwargs.get("device") is not None:
            to_device = torch.device(kwargs["device"]) == UNREADABLE
            if to_device:
                raise DeviceReadError(f"{func.__name__} uploads Python values and waits for it")
        if func is torch.Tensor.__setitem__:
            target, index, value = args
            by_tensor = any(isinstance(leaf, torch.Tensor) for leaf in tree_leaves(index))
            if target.device == UNREADABLE and by_tensor and not isinstance(value, torch.Tensor):
                raise DeviceReadError("indexed assignment of a Python value uploads it; index_fill_ does not")
        return func(*args, **kwargs)
