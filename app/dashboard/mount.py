"""The dashboard's routes. They come first: a page's route steps aside for whoever does not ask for HTML."""

from fastapi import FastAPI

from app.dashboard import assets, data, pages, sign_in
from app.services.refusals import Refusals


def install(app: FastAPI) -> None:
    app.state.refusals = Refusals()
    for router in (pages.router, sign_in.router, data.router, assets.router):
        app.include_router(router)
    # Who uses a wrong method is told the right ones; not those of pages, which stand beside a call of the API.
    app.state.routes += [route for router in (sign_in.router, data.router, assets.router) for route in router.routes]
