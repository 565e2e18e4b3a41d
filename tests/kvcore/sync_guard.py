"""A device that cannot be waited for, on a machine without one.

``DEVICE`` stands for it: factories that are asked for it, and everything that goes through the upload function, give
``DeviceTensor``s, and so does every operation on one. Inside ``no_waits`` an error is whatever would make the host wait for
such a tensor, copy a scalar to it, or mix it with a tensor of the host, which a real device would refuse.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map_only

from kvcore.kernels import addressing

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

DEVICE = torch.device("cpu", 1)

_WAITS = {
    "item", "tolist", "cpu", "numpy", "__array__", "__bool__", "__int__", "__float__", "__index__", "__contains__",
    "equal", "allclose", "is_nonzero", "nonzero", "argwhere", "masked_select", "unique",
    "unique_consecutive", "_unique2", "repeat_interleave", "bincount",
}  # fmt: skip
_UPLOADS = {"copy_", "to"}

_enforced = False


class DeviceSync(AssertionError):
    """The host would wait for the device here, or the device would refuse."""


class DeviceTensor(torch.Tensor):
    """A tensor of ``DEVICE``; its values live in host memory all the same."""

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name == "__get__" and getattr(func, "__self__", None) is torch.Tensor.device:
            return DEVICE
        if _enforced:
            _refuse(name, args, kwargs)
        args, kwargs = tree_map_only(torch.Tensor, _plain, (args, kwargs))
        with torch._C.DisableTorchFunctionSubclass():
            out = func(*args, **kwargs)
        return tree_map_only(torch.Tensor, lambda t: t.as_subclass(DeviceTensor), out)


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    with torch._C.DisableTorchFunctionSubclass():
        return tensor.as_subclass(torch.Tensor)


def _refuse(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if name in _WAITS:
        raise DeviceSync(f"{name} of a tensor of the device")
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    host = [t for t in tensors if not isinstance(t, DeviceTensor) and t.dim() > 0]
    if host and name not in _UPLOADS:
        raise DeviceSync(f"{name} mixes the device with a tensor of the host, {tuple(host[0].shape)}")
    if name in {"__getitem__", "__setitem__"}:
        index = args[1] if isinstance(args[1], tuple) else (args[1],)
        masks = [i for i in index if isinstance(i, torch.Tensor) and _plain(i).dtype == torch.bool]
        if masks:
            raise DeviceSync(f"{name} with a boolean mask of the device")
        by_tensor = any(isinstance(i, (torch.Tensor, list)) for i in index)
        if name == "__setitem__" and by_tensor and not isinstance(args[2], torch.Tensor):
            raise DeviceSync("a scalar is uploaded into indexed places of the device")


class FakeDevice(TorchFunctionMode):
    """Gives what is made on ``DEVICE`` the right type."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if kwargs.get("device") == DEVICE:
            kwargs["device"] = torch.device("cpu")
            return func(*args, **kwargs).as_subclass(DeviceTensor)
        return func(*args, **kwargs)


@contextmanager
def fake_device() -> Iterator[None]:
    """Make stacks on ``DEVICE`` inside of this. Uploads follow in place, for everybody who holds the function."""

    def upload(host: np.ndarray, device: torch.device) -> torch.Tensor:
        return _test_upload(host, device)  # noqa: F821  (found in the function's own module)

    code = addressing.upload.__code__
    vars(addressing)["_test_upload"] = _upload
    addressing.upload.__code__ = upload.__code__
    try:
        with FakeDevice():
            yield
    finally:
        addressing.upload.__code__ = code
        del vars(addressing)["_test_upload"]


def _upload(host: np.ndarray, device: torch.device) -> torch.Tensor:
    tensor = torch.from_numpy(host.copy())
    return tensor.as_subclass(DeviceTensor) if device == DEVICE else tensor


@contextmanager
def no_waits() -> Iterator[None]:
    """Fail on everything that would make the host wait for ``DEVICE``."""
    global _enforced  # noqa: PLW0603  (one process-wide switch)
    _enforced = True
    try:
        yield
    finally:
        _enforced = False
