package docs_test

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The commands of a page are the blocks of code without a language, and in blocks of text and console the lines with
// a prompt. Comments between the paragraphs, which readers do not see, give `make docs-run` further instructions;
// each is about the next block of commands, except the first, which is a step of its own:
//
//	<!-- run: COMMANDS -->            what has to be there for what follows, or has to hold after it
//	<!-- goes on: COMMAND -->         each line runs until it is interrupted, and is ready once COMMAND succeeds
//	<!-- interrupted -->              ends what goes on (does not need a block)
//	<!-- not run: REASON -->          it is not run
//	<!-- exits: N -->                 with this exit code
//	<!-- in place of TEXT: COMMAND -->  from here on, what COMMAND prints stands for TEXT
var directive = regexp.MustCompile(`(?s)^(run|goes on|interrupted|not run|exits|in place of (.+?))(?:: *(.*))?$`)

type action int

const (
	runs action = iota
	runsOn
	interrupts
	notRun
	substitutes
)

// pageStep is one step of a page.
type pageStep struct {
	action action
	// line is its line in the page; shown marks commands that readers see.
	line  int
	shown bool
	text  string
	// about is the readiness check, the reason why it is not run, or the command whose output replaces the text.
	about string
	exits int
}

// page holds the steps of a document, in its order.
type page struct {
	name  string
	steps []pageStep
}

// runsAnything reports whether a page needs a machine at all.
func (p page) runsAnything() bool {
	return slices.ContainsFunc(p.steps, func(d pageStep) bool { return d.shown && d.action != notRun })
}

// pageParser parses the lines of a page.
type pageParser struct {
	page
	// comment and fence are those that are open: their text so far, and where they began.
	comment, fence  *pageStep
	language, inner string
	// next is said about the block that comes.
	next *pageStep
	errs []string
}

// parsePage reads a document; the errors name lines.
func parsePage(name, text string) (page, []string) {
	p := &pageParser{page: page{name: name}}
	for i, line := range strings.Split(text, "\n") {
		p.take(i+1, line)
	}
	if p.next != nil {
		p.fail(p.next.line, "no block of commands follows")
	}
	return p.page, p.errs
}

func (p *pageParser) fail(line int, what string) {
	p.errs = append(p.errs, fmt.Sprintf("%s:%d: %s", p.name, line, what))
}

func (p *pageParser) take(n int, line string) {
	trimmed := strings.TrimSpace(line)
	switch {
	case p.comment != nil:
		p.commentLine(line)
	case p.fence != nil && trimmed == "```":
		p.block(*p.fence)
		p.fence = nil
	case p.fence != nil:
		p.fence.text += strings.TrimPrefix(line, p.inner) + "\n"
	case strings.HasPrefix(trimmed, "```"):
		p.language, p.inner, _ = strings.Cut(trimmed[3:], " ")
		p.inner = line[:strings.Index(line, "`")]
		p.fence = &pageStep{line: n + 1, shown: true}
	case strings.HasPrefix(trimmed, "<!--"):
		p.comment = &pageStep{line: n}
		p.commentLine(strings.TrimPrefix(trimmed, "<!--"))
	}
}

// commentLine takes in a line of a comment.
func (p *pageParser) commentLine(line string) {
	before, _, ended := strings.Cut(line, "-->")
	p.comment.text += before + "\n"
	if !ended {
		return
	}
	at := *p.comment
	p.comment = nil
	if strings.HasPrefix(strings.TrimSpace(at.text), "Written by") {
		return // a generated page's own words
	}
	found := directive.FindStringSubmatch(strings.TrimSpace(at.text))
	if found == nil {
		p.fail(at.line, "a comment that says nothing to make docs-run: "+strings.TrimSpace(at.text))
		return
	}
	at.text = strings.TrimSpace(found[3])
	if at.text == "" && found[1] != "interrupted" {
		p.fail(at.line, found[1]+": nothing is said after it")
	}
	switch found[1] {
	case "run":
		p.steps = append(p.steps, at)
	case "interrupted":
		at.action = interrupts
		p.steps = append(p.steps, at)
	case "goes on":
		p.expect(pageStep{action: runsOn, line: at.line, about: at.text})
	case "not run":
		p.expect(pageStep{action: notRun, line: at.line, about: at.text})
	case "exits":
		code, err := strconv.Atoi(at.text)
		if err != nil {
			p.fail(at.line, "exits: "+err.Error())
		}
		p.expect(pageStep{line: at.line, exits: code})
	default:
		at.action, at.about = substitutes, found[2]
		p.steps = append(p.steps, at)
	}
}

func (p *pageParser) expect(next pageStep) {
	if p.next != nil {
		p.fail(p.next.line, "no block of commands follows")
	}
	p.next = &next
}

// block takes in a block of code that has ended.
func (p *pageParser) block(b pageStep) {
	var commands []pageStep
	switch p.language {
	case "":
		commands = []pageStep{b}
	case "text", "console":
		commands = prompted(b)
	}
	if len(commands) == 0 {
		return // excerpts and output; what is said is about the next one
	}
	if next := p.next; next != nil {
		if next.action == runsOn && p.language == "" {
			commands = eachLine(b)
		}
		for i := range commands {
			commands[i].action, commands[i].about, commands[i].exits = next.action, next.about, next.exits
		}
		p.next = nil
	}
	p.steps = append(p.steps, commands...)
}

// eachLine are the commands of a block, one a line.
func eachLine(b pageStep) (commands []pageStep) {
	for i, line := range strings.Split(strings.TrimSpace(b.text), "\n") {
		commands = append(commands, pageStep{line: b.line + i, shown: true, text: line})
	}
	return commands
}

// prompted are the commands among the lines of a block of text. A line that ends in a backslash goes
// on in the next.
func prompted(b pageStep) (commands []pageStep) {
	open := false
	for i, line := range strings.Split(b.text, "\n") {
		command, prompt := strings.CutPrefix(line, "$ ")
		switch {
		case open:
			commands[len(commands)-1].text += "\n" + line
		case prompt:
			commands = append(commands, pageStep{line: b.line + i, shown: true, text: command})
		default:
			continue
		}
		open = strings.HasSuffix(line, `\`)
	}
	return commands
}

// pages are the documents whose commands are run, or have a reason not to be.
func pages(t *testing.T) (all []page) {
	t.Helper()
	top := os.DirFS("../..")
	names, err := fs.Glob(top, "docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append([]string{"README.md", "CONTRIBUTING.md", "examples/README.md"}, names...) {
		if path.Base(name) == "commands.md" {
			continue // made from the commands, and shows none
		}
		content, err := fs.ReadFile(top, name)
		if err != nil {
			t.Fatal(err)
		}
		one, problems := parsePage(name, string(content))
		for _, w := range problems {
			t.Error(w)
		}
		all = append(all, one)
	}
	return all
}

// TestCommandsAreRunOrSayWhyNot lists what `make docs-run` leaves out, each with its reason.
func TestCommandsAreRunOrSayWhyNot(t *testing.T) {
	run, left := 0, 0
	for _, p := range pages(t) {
		for _, d := range p.steps {
			switch {
			case !d.shown:
			case d.action != notRun:
				run++
			default:
				left++
				t.Logf("%s:%d: not run (%s):\n%s", p.name, d.line, d.about, d.text)
			}
		}
	}
	t.Logf("%d blocks of commands are run by make docs-run, %d are not", run, left)
	if run < 20 {
		t.Errorf("only %d blocks of commands are run: is this the top of the repository?", run)
	}
}

func TestPagesAreRead(t *testing.T) {
	got, problems := parsePage("a.md", strings.Join([]string{
		"# A", "<!-- run: one -->", "text", "```", "two", "three", "```", "```yaml", "a: b", "```",
		"<!-- goes on: is it ready", "or not -->", "1. x", "   ```", "   four", "   five", "   ```", "<!-- interrupted -->",
		"<!-- in place of URL: echo url -->", "<!-- exits: 1 -->", "```text", "output only", "```",
		"```text", "$ six \\", "  seven", "output", "```", "<!-- not run: long -->", "```", "eight", "```",
		"<!-- done -->", "<!-- exits: x -->",
	}, "\n"))
	want := []pageStep{
		{line: 2, text: "one"},
		{line: 5, shown: true, text: "two\nthree\n"},
		{action: runsOn, line: 15, shown: true, text: "four", about: "is it ready\nor not"},
		{action: runsOn, line: 16, shown: true, text: "five", about: "is it ready\nor not"},
		{action: interrupts, line: 18},
		{action: substitutes, line: 19, text: "echo url", about: "URL"},
		{line: 25, shown: true, text: "six \\\n  seven", exits: 1},
		{action: notRun, line: 31, shown: true, text: "eight\n", about: "long"},
	}
	if diff := cmp.Diff(want, got.steps, cmp.AllowUnexported(pageStep{})); diff != "" {
		t.Error(diff)
	}
	if want := 3; len(problems) != want {
		t.Errorf("%d mistakes, want %d: %s", len(problems), want, strings.Join(problems, "\n"))
	}
}
