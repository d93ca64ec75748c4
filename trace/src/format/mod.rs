//! The kernel's own description of its events: `format` files, as binary recordings carry them.

pub(crate) mod decode;
pub(crate) mod flags;

/// One field of an event's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) offset: usize,
    pub(crate) size: usize,
    pub(crate) signed: bool,
}

/// A `format` file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct EventFormat {
    pub(crate) name: String,
    pub(crate) id: u16,
    pub(crate) fields: Vec<Field>,
    pub(crate) print_fmt: String,
}

/// Fields of one event that are kept: the kernel's largest have below 100.
const FIELDS_MAX: usize = 512;

impl EventFormat {
    /// Parses a `format` file; the reason when it is none.
    pub(crate) fn parse(text: &str) -> Result<EventFormat, String> {
        let mut format = EventFormat::default();
        let mut id = None;
        for line in text.lines() {
            let line = line.trim();
            if let Some(name) = line.strip_prefix("name:") {
                format.name = name.trim().to_string();
            } else if let Some(number) = line.strip_prefix("ID:") {
                id = number.trim().parse().ok();
            } else if line.starts_with("field:") {
                let field = field(line).ok_or_else(|| format!("field not understood: {line}"))?;
                if format.fields.len() < FIELDS_MAX {
                    format.fields.push(field);
                }
            } else if let Some(fmt) = line.strip_prefix("print fmt:") {
                format.print_fmt = fmt.trim().to_string();
            }
        }
        format.id = id.ok_or_else(|| format!("event {:?} without an ID", format.name))?;
        if format.name.is_empty() {
            return Err(format!("event {} without a name", format.id));
        }
        Ok(format)
    }

    /// A field by name.
    pub(crate) fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

/// Parses `field:unsigned long pfn; offset:8; size:8; signed:0;` (header_page has `field: u64 …`).
pub(crate) fn field(line: &str) -> Option<Field> {
    let line = line.trim().strip_prefix("field:")?;
    let mut parts = line.split(';');
    let declared = parts.next()?.trim();
    let (mut offset, mut size, mut signed) = (None, None, false);
    for part in parts {
        match part.trim().split_once(':') {
            Some(("offset", number)) => offset = number.trim().parse().ok(),
            Some(("size", number)) => size = number.trim().parse().ok(),
            Some(("signed", number)) => signed = number.trim() == "1",
            _ => {}
        }
    }
    let name = declared.rsplit([' ', '*']).next()?;
    let name = name.split('[').next()?.to_string();
    let (offset, size): (usize, usize) = (offset?, size?);
    (offset <= 0xffff && size <= 0xffff).then_some(Field { name, offset, size, signed })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "name: mm_page_free\nID: 657\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:unsigned long pfn;\toffset:8;\tsize:8;\tsigned:0;\n\
        \tfield:char comm[16];\toffset:16;\tsize:16;\tsigned:0;\n\n\
        print fmt: \"pfn=0x%lx\", REC->pfn\n";

    #[test]
    fn a_format_file_gives_places_of_fields() {
        let format = EventFormat::parse(TEXT).unwrap();
        assert_eq!((format.name.as_str(), format.id), ("mm_page_free", 657));
        let pid = format.field("common_pid").unwrap();
        assert_eq!((pid.offset, pid.size, pid.signed), (4, 4, true));
        assert_eq!(format.field("comm").unwrap().size, 16);
        assert!(format.print_fmt.contains("REC->pfn"));
    }

    #[test]
    fn a_format_without_id_is_refused() {
        assert!(EventFormat::parse("name: x\nformat:\n").is_err());
        assert!(EventFormat::parse("name: x\nID: 3\nfield:int x;\n").is_err());
    }
}
