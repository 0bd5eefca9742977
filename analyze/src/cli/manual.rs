//! The man page and the completions of shells, made from the flags themselves. `make install` asks for them.

use clap::CommandFactory;
use clap_complete::Shell;

use super::args::Args;
use crate::error::Error;

/// What `make install` asks for.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ManualArgs {
    /// Print the man page.
    #[arg(long, hide = true, exclusive = true)]
    pub man_page: bool,

    /// Print the completions of a shell.
    #[arg(long, hide = true, exclusive = true, value_name = "SHELL")]
    pub completions: Option<Shell>,
}

/// What was asked for.
///
/// # Errors
/// It can't be made.
pub(super) fn text(args: &ManualArgs) -> Result<Option<Vec<u8>>, Error> {
    let mut command = Args::command();
    let mut out = Vec::new();
    if let Some(shell) = args.completions {
        clap_complete::generate(shell, &mut command, "hook-analyze", &mut out);
    } else if args.man_page {
        man_page(command, &mut out).map_err(|why| Error::Render { what: "the man page", why: why.to_string() })?;
    } else {
        return Ok(None);
    }
    Ok(Some(out))
}

/// One page: the flags of each command stand after those of the program itself.
fn man_page(mut command: clap::Command, out: &mut Vec<u8>) -> std::io::Result<()> {
    command.build();
    let page = clap_mangen::Man::new(command.clone());
    page.render_title(out)?;
    page.render_name_section(out)?;
    page.render_synopsis_section(out)?;
    page.render_description_section(out)?;
    page.render_options_section(out)?;
    out.extend(closing(&command, "").into_bytes());
    for part in command.get_subcommands().filter(|part| !part.is_hide_set()) {
        let name = part.get_name().to_uppercase();
        let mut text = Vec::new();
        let page = clap_mangen::Man::new(part.clone());
        page.render_description_section(&mut text)?;
        page.render_options_section(&mut text)?;
        let text = String::from_utf8_lossy(&text);
        let text = text.replace(".SH DESCRIPTION", &format!(".SH \"{name}\""));
        out.extend(text.replace(".SH OPTIONS", &format!(".SH \"{name}: OPTIONS\"")).into_bytes());
        out.extend(closing(part, &format!("{name}: ")).into_bytes());
    }
    Ok(())
}

/// What stands after the flags in `--help`: examples as they are, then the exit status.
fn closing(command: &clap::Command, of: &str) -> String {
    let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    let examples = text.replacen("Examples:\n", &format!(".SH \"{of}EXAMPLES\"\n.nf\n"), 1);
    examples.replacen("\n\nExit status: ", &format!("\n.fi\n.SH \"{of}EXIT STATUS\"\n"), 1) + "\n"
}
