"""The gRPC faces of the mounter: CSI Identity and Node, and kubelet's plug-in registration."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

import grpc
from google.protobuf import wrappers_pb2
from google.protobuf.message import Message

from evenkeel import __version__, names
from evenkeel.errors import EvenkeelError, InputError
from evenkeel.nodecache.mounter import Mounter, read_volume
from evenkeel.nodecache.proto import csi_pb2 as csi
from evenkeel.nodecache.proto import pluginregistration_pb2 as registration
from evenkeel.reasons import Reason

CSI_VERSION = "1.0.0"
"""Of the CSI protocol, as kubelet's registration wants it; not of this plug-in."""
STOP_SECONDS = 1.0

Q = TypeVar("Q", bound=Message)
log = logging.getLogger(__name__)


class Service(Protocol):
    """One gRPC service: its full name and methods."""

    name: str

    def methods(self) -> Mapping[str, grpc.RpcMethodHandler[Any, Any]]:
        """Handlers by method name."""


class Identity:
    """csi.v1.Identity."""

    name = "csi.v1.Identity"

    def methods(self) -> Mapping[str, grpc.RpcMethodHandler[Any, Any]]:
        """Handlers by method name."""
        return {
            "GetPluginInfo": unary(csi.GetPluginInfoRequest, self._info),
            "GetPluginCapabilities": unary(csi.GetPluginCapabilitiesRequest, self._capabilities),
            "Probe": unary(csi.ProbeRequest, self._probe),
        }

    async def _info(self, _: csi.GetPluginInfoRequest) -> csi.GetPluginInfoResponse:
        return csi.GetPluginInfoResponse(name=names.CSI_DRIVER, vendor_version=__version__)

    async def _capabilities(self, _: csi.GetPluginCapabilitiesRequest) -> csi.GetPluginCapabilitiesResponse:
        return csi.GetPluginCapabilitiesResponse()

    async def _probe(self, _: csi.ProbeRequest) -> csi.ProbeResponse:
        return csi.ProbeResponse(ready=wrappers_pb2.BoolValue(value=True))


class Node:
    """csi.v1.Node."""

    name = "csi.v1.Node"

    def __init__(self, mounter: Mounter, node: str) -> None:
        self._mounter = mounter
        self._node = node

    def methods(self) -> Mapping[str, grpc.RpcMethodHandler[Any, Any]]:
        """Handlers by method name."""
        return {
            "NodePublishVolume": unary(csi.NodePublishVolumeRequest, self.publish),
            "NodeUnpublishVolume": unary(csi.NodeUnpublishVolumeRequest, self.unpublish),
            "NodeGetCapabilities": unary(csi.NodeGetCapabilitiesRequest, self._capabilities),
            "NodeGetInfo": unary(csi.NodeGetInfoRequest, self._info),
        }

    async def publish(self, request: csi.NodePublishVolumeRequest) -> csi.NodePublishVolumeResponse:
        """Mount. The request is never logged as a whole: its context may hold tokens."""
        _require(volume_id=request.volume_id, target_path=request.target_path)
        _require(volume_capability="" if not request.HasField("volume_capability") else "given")
        if request.volume_capability.HasField("block"):
            raise InputError("volume_capability: block volumes are not served", reason=Reason.INVALID_SPEC)
        volume = read_volume(dict(request.volume_context), request.target_path, read_only=request.readonly)
        await self._mounter.publish(volume)
        return csi.NodePublishVolumeResponse()

    async def unpublish(self, request: csi.NodeUnpublishVolumeRequest) -> csi.NodeUnpublishVolumeResponse:
        """Unmount."""
        _require(volume_id=request.volume_id, target_path=request.target_path)
        await self._mounter.unpublish(Path(request.target_path))
        return csi.NodeUnpublishVolumeResponse()

    async def _capabilities(self, _: csi.NodeGetCapabilitiesRequest) -> csi.NodeGetCapabilitiesResponse:
        return csi.NodeGetCapabilitiesResponse()

    async def _info(self, _: csi.NodeGetInfoRequest) -> csi.NodeGetInfoResponse:
        return csi.NodeGetInfoResponse(node_id=self._node)


class Registration:
    """pluginregistration.Registration: kubelet asks who we are, then says whether it took us.

    Args:
        endpoint: the CSI socket's path on the host.
        refused: called with kubelet's sentence when it did not take us.
    """

    name = "pluginregistration.Registration"

    def __init__(self, endpoint: str, refused: Callable[[str], None]) -> None:
        self._endpoint = endpoint
        self._refused = refused

    def methods(self) -> Mapping[str, grpc.RpcMethodHandler[Any, Any]]:
        """Handlers by method name."""
        return {
            "GetInfo": unary(registration.InfoRequest, self._info),
            "NotifyRegistrationStatus": unary(registration.RegistrationStatus, self._notify),
        }

    async def _info(self, _: registration.InfoRequest) -> registration.PluginInfo:
        return registration.PluginInfo(
            type="CSIPlugin", name=names.CSI_DRIVER, endpoint=self._endpoint, supported_versions=[CSI_VERSION]
        )

    async def _notify(
        self, status: registration.RegistrationStatus
    ) -> registration.RegistrationStatusResponse:
        if status.plugin_registered:
            log.info("registered driver=%s", names.CSI_DRIVER)
        else:
            self._refused(status.error)
        return registration.RegistrationStatusResponse()


def unary(
    request_type: type[Q], method: Callable[[Q], Awaitable[Message]]
) -> grpc.RpcMethodHandler[Any, Any]:
    """A handler that parses the request and turns our errors into gRPC codes."""

    async def call(request: Q, context: grpc.aio.ServicerContext[Any, Any]) -> Message:
        try:
            return await method(request)
        except EvenkeelError as error:
            code = grpc.StatusCode.UNAVAILABLE if error.retry else grpc.StatusCode.INVALID_ARGUMENT
            log.info("refused request=%s code=%s why=%s", request_type.__name__, code.name, error)
            await context.abort(code, error.message)

    return grpc.unary_unary_rpc_method_handler(
        call,
        request_deserializer=request_type.FromString,
        response_serializer=lambda message: message.SerializeToString(),
    )


async def serve(socket: Path, *services: Service) -> grpc.aio.Server:
    """Serve on a Unix socket; a stale socket of an earlier process goes.

    Raises:
        OSError, RuntimeError: the path cannot be bound.
    """
    socket.unlink(missing_ok=True)  # noqa: ASYNC240 - once, at start
    server = grpc.aio.server()
    handlers = [grpc.method_handlers_generic_handler(item.name, dict(item.methods())) for item in services]
    server.add_generic_rpc_handlers(tuple(handlers))
    server.add_insecure_port(f"unix://{socket}")
    await server.start()
    return server


def _require(**fields: str) -> None:
    for name, value in fields.items():
        if not value:
            raise InputError(f"{name}: required", reason=Reason.INVALID_SPEC)
