//! Tables in Markdown, so that they can go into the documentation as they are.

/// Prints a table: the first column to the left, the others to the right.
pub(crate) fn print(title: &str, header: &[&str], rows: &[Vec<String>]) {
    println!("\n### {title}\n");
    println!("{}", line(header.iter().map(ToString::to_string), header, rows));
    let rules = (0..header.len()).map(|column| {
        let width = width(column, header, rows);
        if column == 0 { "-".repeat(width) } else { format!("{}:", "-".repeat(width - 1)) }
    });
    println!("|{}|", rules.map(|rule| format!(" {rule} ")).collect::<Vec<_>>().join("|"));
    for row in rows {
        println!("{}", line(row.iter().cloned(), header, rows));
    }
}

fn line(cells: impl Iterator<Item = String>, header: &[&str], rows: &[Vec<String>]) -> String {
    let cells = cells.enumerate().map(|(column, cell)| {
        let width = width(column, header, rows);
        if column == 0 { format!(" {cell:<width$} ") } else { format!(" {cell:>width$} ") }
    });
    format!("|{}|", cells.collect::<Vec<_>>().join("|"))
}

fn width(column: usize, header: &[&str], rows: &[Vec<String>]) -> usize {
    let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
    cells.chain(header.get(column).map(|cell| cell.chars().count())).max().unwrap_or(3).max(3)
}

/// A count per second, in thousands or millions.
pub(crate) fn rate(per_second: f64) -> String {
    match per_second {
        rate if rate >= 1e6 => format!("{:.2} M", rate / 1e6),
        rate if rate >= 1e3 => format!("{:.0} k", rate / 1e3),
        rate => format!("{rate:.0}"),
    }
}

/// KiB as MB with one digit.
pub(crate) fn megabytes(kib: f64) -> String {
    format!("{:.1}", kib * 1024.0 / 1e6)
}

/// A ratio, or a dash.
pub(crate) fn ratio(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.2}"))
}
