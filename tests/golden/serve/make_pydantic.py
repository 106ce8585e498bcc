#!/usr/bin/env python3
"""Writes pydantic.json beside this file: schemas as pydantic 2 writes them, with texts that hold and texts that do not.

    make_pydantic.py      (pydantic 2)
"""
import datetime as dt
import decimal
import enum
import ipaddress
import json
import pathlib
import typing
import uuid

from annotated_types import Len, MultipleOf
from pydantic import AnyUrl, Base64Bytes, BaseModel, EmailStr, FilePath, HttpUrl, IPvAnyAddress, Json, SecretStr, TypeAdapter, UUID4, conint, conlist, conset, constr, ConfigDict, Field


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Cat(BaseModel):
    kind: typing.Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: typing.Literal["dog"]
    name: str = "Rex"


class Node(BaseModel):
    value: int
    next: typing.Optional["Node"] = None


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")
    a: int


class Loose(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int


Pet = typing.Annotated[typing.Union[Cat, Dog], Field(discriminator="kind")]
Name = typing.Annotated[str, Field(pattern="^[a-z]+$")]
# Type, texts of values that hold, texts of such that do not.
TYPES = [
    (pathlib.Path, ['"a/b"'], ["1"]), (FilePath, ['"a"'], ["null"]), (SecretStr, ['"x"'], ["{}"]), (bytes, ['"x"'], ["1"]),
    (Json, ['"1"'], ["1"]), (set[str], ['["a"]'], ["[1]"]), (frozenset[int], ["[1,2]"], ['["a"]']),
    (tuple[int, str], ['[1,"a"]'], ["[1]", '[1,"a",2]']), (tuple[int, ...], ["[]", "[1,2]"], ['["a"]']),
    (decimal.Decimal, ["1.5", '"1.5"'], ["null"]), (dt.datetime, ['"2024-01-31T10:00:00Z"'], ['"2024"']),
    (dt.date, ['"2024-01-31"'], ['"2024-02-31"']), (dt.time, ['"10:00:00Z"'], ['"25:00:00Z"']), (dt.timedelta, ['"P1D"'], ['"1"']),
    (uuid.UUID, ['"123e4567-e89b-12d3-a456-426614174000"'], ['"1"']), (ipaddress.IPv4Network, ['"10.0.0.0/8"', '"10.1.2.3"', '"10.1.2.0/24"'], ["1", '"x"', '"10.0.0.1/8"']),
    (ipaddress.IPv4Address, ['"10.0.0.1"'], ['"10.0.0"']), (ipaddress.IPv6Address, ['"::1"'], ['"x"']),
    (HttpUrl, ['"http://a.b/c"'], ['"x"']), (AnyUrl, ['"http://a.b/c"'], ['"x"']), (Colour, ['"red"'], ['"green"']),
    (typing.Literal["a", 1], ['"a"', "1"], ["2"]), (Pet, ['{"kind":"cat","lives":9}', '{"kind":"dog"}'], ['{"kind":"cow"}', '{"kind":"cat"}']),
    (typing.Optional[int], ["1", "null"], ['"a"']), (Node, ['{"value":1}', '{"value":1,"next":{"value":2,"next":null}}'], ['{"next":null}', '{"value":1,"more":2}']),
    (Strict, ['{"a":1}'], ['{"a":1,"b":2}']), (Loose, ['{"a":1,"b":2}'], ["{}"]), (dict[str, int], ['{"x":1}', "{}"], ['{"x":"y"}']),
    (dict[Colour, int], ['{"red":1}'], ['{"green":1}']), (dict[Name, int], ['{"abc":1}'], ['{"A":1}']),
    (conlist(int, min_length=1, max_length=2), ["[1]", "[1,2]"], ["[]", "[1,2,3]"]), (constr(pattern="^a+$", max_length=3), ['"aaa"'], ['"aaaa"', '"b"']),
    (typing.Annotated[str, Field(max_length=100000)], ['"a"'], ["1"]), (typing.Annotated[int, Field(ge=0, lt=10)], ["0", "9"], ["10", "-1"]),
    (UUID4, ['"123e4567-e89b-42d3-a456-426614174000"'], ['"123e4567-e89b-12d3-a456-426614174000"']),
    (ipaddress.IPv6Network, ['"2001:db8::/64"', '"::1/128"'], ['"2001:db8::1/64"']), (ipaddress.IPv6Interface, ['"::1/64"'], ['"::1/129"']),
    (IPvAnyAddress, ['"10.0.0.1"', '"::1"'], ['"10.0.0"']), (EmailStr, ['"a.b@c.org"'], ['"a@b.1"', '"a"']),
    (Base64Bytes, ['"aGk="', '""'], ['"aGk"']), (typing.Annotated[int, MultipleOf(5)], ["0", "-15", "120"], ["3", "-16"]),
    (typing.Annotated[float, Field(multiple_of=0.01, ge=0, le=1)], ["0.07", "1", "0.3"], ["0.071", "1.01"]),
    (set[Colour], ['["red"]', '["blue","red"]', "[]"], ['["red","red"]']), (conset(conint(ge=1, le=6), min_length=2), ["[1,6]"], ["[1]", "[1,1]"]),
    (typing.Annotated[dict[str, int], Len(1, 2)], ['{"a":1}', '{"a":1,"b":2}'], ["{}", '{"a":1,"b":2,"c":3}']),
    (typing.Annotated[dict[Colour, int], Len(2)], ['{"red":1,"blue":2}'], ['{"red":1}']),
    (constr(pattern=r"^\S+$", max_length=5000), ['"abc"'], ['"a b"', '""']), (list[Pet], ['[{"kind":"dog","name":"a"}]'], ['[{"kind":"dog","name":1}]']), (typing.Any, ["1", '{"a":[null]}'], []), (dict, ['{"a":1}'], ["[]"]),
]
# As earlier versions wrote them.
EARLIER = [
    ("Decimal of pydantic 2.11", {"anyOf": [{"type": "number"}, {"pattern": "^(?!^[-+.]*$)[+-]?0*\\d*\\.?\\d*$", "type": "string"}]},
     ["1.5", '"1.5"'], ['"-"', "null"]),
]


def main():
    out = [{"where": where, "schema": schema, "texts": [[t, True] for t in good] + [[t, False] for t in bad]}
           for where, schema, good, bad in EARLIER]
    for kind, good, bad in TYPES:
        text = getattr(kind, "__name__", None) if isinstance(kind, type) else str(kind)
        out.append({"where": str(text), "schema": TypeAdapter(kind).json_schema(), "texts": [[t, True] for t in good] + [[t, False] for t in bad]})
    path = pathlib.Path(__file__).with_name("pydantic.json")
    path.write_text("[\n" + ",\n".join(json.dumps(e) for e in out) + "\n]\n")


main()
