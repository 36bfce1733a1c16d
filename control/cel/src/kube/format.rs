//! `format.dns1123Label().validate('…')`: named formats of text.

use crate::opaque::format::format;
use crate::run::meter::Meter;
use crate::run::native::Native;
use crate::run::{Error, Val};

pub(crate) fn named<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    match args {
        [Val::Text(name)] => Ok(match format(name) {
            Some(format) => Val::some(Val::Format(format)),
            None => Val::Optional(None),
        }),
        _ => Err(Error::NoSuchOverload),
    }
}

pub(crate) fn validate<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    match args {
        [Val::Format(format), Val::Text(text)] => {
            meter.work(text.len())?;
            let wrong = (format.check)(text);
            if wrong.is_empty() {
                return Ok(Val::Optional(None));
            }
            Ok(Val::some(Val::list(
                wrong.into_iter().map(Val::text).collect(),
            )))
        }
        _ => Err(Error::NoSuchOverload),
    }
}

macro_rules! constants {
    ($($name:literal)*) => {
        /// The function that gives a format: `format.dns1123Label`.
        pub(crate) fn constant(name: &str) -> Option<Native> {
            match name.strip_prefix("format.")? {
                $($name => {
                    fn get<'a>(_: &mut Meter, _: &[Val<'a>]) -> Result<Val<'a>, Error> {
                        format($name).map(Val::Format).ok_or(Error::NoSuchOverload)
                    }
                    Some(get)
                })*
                _ => None,
            }
        }
    };
}
constants!(
    "dns1123Label" "dns1123Subdomain" "dns1035Label" "qualifiedName" "dns1123LabelPrefix"
    "dns1123SubdomainPrefix" "dns1035LabelPrefix" "labelValue" "uri" "uuid" "byte" "date" "datetime"
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opaque::format::FORMATS;

    #[test]
    fn every_format_can_be_called() {
        for format in &FORMATS {
            assert!(constant(&format!("format.{}", format.name)).is_some());
        }
    }
}
