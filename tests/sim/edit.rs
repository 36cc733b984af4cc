//! Changes to the PTX of a kernel, found by what instructions do and not by register numbers.

/// The PTX of a kernel, line by line.
#[derive(Clone)]
pub struct Text {
    pub lines: Vec<String>,
}

/// Which loop a wait belongs to, from what follows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// It is followed by an expect_tx.
    Producer,
    /// It is followed by a wgmma.
    Consumer,
    /// It is followed by neither.
    Drain,
}

impl Text {
    pub fn new(text: &str) -> Text {
        Text { lines: text.lines().map(str::to_string).collect() }
    }

    pub fn text(&self) -> String {
        self.lines.join("\n")
    }

    /// Indices of the lines that contain `part`.
    pub fn all(&self, part: &str) -> Vec<usize> {
        (0..self.lines.len()).filter(|&i| self.lines[i].contains(part)).collect()
    }

    /// Index of the first line that contains `part`.
    pub fn first(&self, part: &str) -> usize {
        *self.all(part).first().unwrap_or_else(|| panic!("the kernel has no `{part}`"))
    }

    /// Replaces `from` in line `at`, which must have it.
    pub fn change(&mut self, at: usize, from: &str, to: &str) {
        assert!(self.lines[at].contains(from), "`{}` has no `{from}`", self.lines[at]);
        self.lines[at] = self.lines[at].replace(from, to);
    }

    /// Takes away the instruction in line `at`.
    pub fn remove(&mut self, at: usize) {
        self.lines[at].clear();
    }

    /// Takes away every line that contains `part`.
    pub fn remove_all(&mut self, part: &str) {
        for at in self.all(part) {
            self.remove(at);
        }
    }

    /// Makes every multicast bring its box to the block of rank 0 only.
    pub fn multicast_to_rank_0(&mut self) {
        for at in self.all("multicast::cluster") {
            // The mask of blocks stands behind the barrier; a cache policy may follow.
            let mask = operand(&self.lines[at], 3);
            self.change(at, &format!("], {mask}"), "], 1");
        }
    }

    /// The waits of a role: lines of their `try_wait`.
    pub fn waits(&self, role: Role) -> Vec<usize> {
        let all = self.all("mbarrier.try_wait.parity");
        all.into_iter().filter(|&at| self.role(at) == role).collect()
    }

    fn role(&self, at: usize) -> Role {
        for line in &self.lines[at + 1..] {
            if line.contains("mbarrier.try_wait") || line.trim_start().starts_with("ret") {
                break;
            }
            if line.contains("expect_tx") {
                return Role::Producer;
            }
            if line.contains("wgmma.") {
                return Role::Consumer;
            }
        }
        Role::Drain
    }

    /// Makes a wait ask for the other parity.
    pub fn flip_parity(&mut self, at: usize) {
        let line = self.lines[at].clone();
        let parity = operand(&line, -1);
        let other = line.replace(&format!(", {parity};"), ", flipped;");
        self.lines[at] = format!(".reg .b32 flipped; xor.b32 flipped, {parity}, 1; {other}");
    }

    /// Makes a wait pass at once.
    pub fn skip_wait(&mut self, at: usize) {
        self.lines[at] = "setp.eq.u32 done, 0, 0;".to_string();
    }

    /// Swaps two lines.
    pub fn swap(&mut self, a: usize, b: usize) {
        self.lines.swap(a, b);
    }
}

/// Operand `index` of the instruction in a line, counted from the end if negative. Commas in brackets and
/// braces do not separate.
pub fn operand(line: &str, index: isize) -> String {
    let body = line.trim().trim_end_matches(';');
    let body = body.split_once(char::is_whitespace).map_or("", |parts| parts.1);
    let mut depth = 0;
    let mut operands = vec![String::new()];
    for c in body.chars() {
        match c {
            '[' | '{' => depth += 1,
            ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                operands.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(last) = operands.last_mut() {
            last.push(c);
        }
    }
    let at = if index < 0 { operands.len() as isize + index } else { index };
    operands[at as usize].trim().to_string()
}
