"""The broker: sessions, topics, subscriptions, dispatch, on one event loop."""

from .broker import Broker
from .metrics import Metrics
from .server import NativeServer, check_exposure
from .settings import BrokerSettings

__all__ = ["Broker", "BrokerSettings", "Metrics", "NativeServer", "check_exposure"]
