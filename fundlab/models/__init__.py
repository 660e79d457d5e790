"""Every resource, request, query, enumeration and operation of the interface, once.

Answers (``Resource``) read leniently: unknown fields and enum values are kept, absent ones are
``None``, and ``to_json()`` gives back what was read, unchanged. Requests (``Request``) and queries
(``Query``) are strict: they are checked before anything is sent, and by the sandbox on arrival.
Section numbers are those of the interface.
"""

from fundlab.models import enumerations, operations, requests, resources
from fundlab.models.enumerations import *  # noqa: F403 - as their ``__all__`` says
from fundlab.models.operations import *  # noqa: F403
from fundlab.models.requests import *  # noqa: F403
from fundlab.models.resources import *  # noqa: F403


def __dir__() -> list[str]:
    return [name for one in (enumerations, operations, requests, resources) for name in one.__all__]
