mod cards;
mod faults;
mod library;
mod machine;

use std::io::{self, Write};

use clap::Args;
use serde_json::json;

use crate::failure::Failure;

/// Reports missing parts of this machine, and remedies.
#[derive(Debug, Args)]
#[command(after_help = "Exit status: 0 nothing is wrong (there may be notes), 1 something is, 2 wrong options.")]
pub(crate) struct Arguments {
    /// Prints JSON
    #[arg(long)]
    json: bool,

    /// Describes each known fault of the installed providers, instead of their number
    #[arg(long)]
    faults: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Good,
    Note,
    Wrong,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Level::Good => "good",
            Level::Note => "note",
            Level::Wrong => "WRONG",
        }
    }
}

#[derive(Debug)]
struct Finding {
    level: Level,
    subject: &'static str,
    text: String,
    advice: Option<String>,
}

impl Finding {
    fn good(subject: &'static str, text: impl Into<String>) -> Self {
        Finding { level: Level::Good, subject, text: text.into(), advice: None }
    }

    fn note(subject: &'static str, text: impl Into<String>, advice: impl Into<String>) -> Self {
        Finding { level: Level::Note, subject, text: text.into(), advice: Some(advice.into()) }
    }

    fn fact(subject: &'static str, text: impl Into<String>) -> Self {
        Finding { level: Level::Note, subject, text: text.into(), advice: None }
    }

    fn wrong(subject: &'static str, text: impl Into<String>, advice: impl Into<String>) -> Self {
        Finding { level: Level::Wrong, subject, text: text.into(), advice: Some(advice.into()) }
    }

    fn text(&self) -> String {
        let mut text = format!("{:<6}{:<12}{}\n", self.level.name(), self.subject, self.text);
        if let Some(advice) = &self.advice {
            text += &format!("{:18}-> {advice}\n", "");
        }
        text
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut findings = library::look(arguments.faults);
    findings.extend(machine::look());
    findings.extend(cards::look());
    let wrong = findings.iter().filter(|finding| finding.level == Level::Wrong).count();
    let text = if arguments.json {
        let all: Vec<_> = findings
            .iter()
            .map(|it| {
                let level = it.level.name().to_lowercase();
                json!({ "level": level, "subject": it.subject, "text": it.text, "advice": it.advice })
            })
            .collect();
        format!("{:#}\n", json!({ "wrong": wrong, "findings": all }))
    } else {
        let all: String = findings.iter().map(Finding::text).collect();
        let end = if wrong == 0 { "Nothing is wrong.".to_owned() } else { format!("Wrong: {wrong}.") };
        format!("{all}\n{end}\n")
    };
    io::stdout().lock().write_all(text.as_bytes())?;
    if wrong == 0 { Ok(()) } else { Err(Failure::Said) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_finding_prints_its_advice() {
        let text = Finding::wrong("memory", "too little", "buy some").text();
        assert_eq!(text, "WRONG memory      too little\n                  -> buy some\n");
    }
}
