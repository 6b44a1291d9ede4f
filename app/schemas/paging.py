"""A page of a list, and how one is asked for."""

from typing import Annotated, Generic, TypeVar

from fastapi import Depends, Query
from pydantic import BaseModel, Field

from app.services.paging import DEFAULT_LIMIT, MOST_ITEMS, PageOrder

Item = TypeVar("Item", bound=BaseModel)


class Page(BaseModel, Generic[Item]):
    """Items, newest first unless said otherwise, and the cursor of the next page."""

    items: list[Item]
    next: str | None = Field(description="Pass it as `cursor` for the next page; null at the end.")


async def _order(
    limit: Annotated[int, Query(ge=1, le=MOST_ITEMS, description="Items a page.")] = DEFAULT_LIMIT,
    cursor: Annotated[str | None, Query(max_length=200, description="`next` of the page before.")] = None,
) -> PageOrder:
    return PageOrder(limit, cursor)


PageQuery = Annotated[PageOrder, Depends(_order)]
