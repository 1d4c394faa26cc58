"""The first import of FastAPI, for a quick start."""

from pydantic import BaseModel


def load_fastapi() -> None:
    """Import FastAPI without building its models of OpenAPI: a third of the import. They are built
    when a description of the API is first asked for, within milliseconds."""
    config = BaseModel.model_config
    config["defer_build"] = True
    try:
        import fastapi.openapi.models  # noqa: F401
    finally:
        del config["defer_build"]
