//! The functions that convert a value: `string(x)`, `int(x)`.

use super::convert;
use super::error::Error;
use super::meter::Meter;
use super::value::Val;

macro_rules! conversions {
    ($($name:ident)*) => {$(
        pub(super) fn $name<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<Val<'a>, Error> {
            match args {
                [value] => convert::$name(value),
                _ => Err(Error::NoSuchOverload),
            }
        }
    )*};
}
conversions!(string bool int uint double bytes timestamp duration type_of);
