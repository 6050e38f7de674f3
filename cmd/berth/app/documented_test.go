package app

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"mvdan.cc/sh/v3/syntax"
)

// documented matches a line of a document that begins with a berth command, as a user would type it. Output that
// begins with the name continues with a colon.
var documented = regexp.MustCompile(`^\s*(?:\$ )?((?:[A-Z_]+=\S+ |kubectl )*(?:[^\s:]*/)?berth [a-z][a-z-]*(?: .*)?)$`)

// TestDocumentedCommandsAreUnderstood: every command that a document shows in a code block exists with these flags
// and accepts as many arguments. The labs also run most of them.
func TestDocumentedCommandsAreUnderstood(t *testing.T) {
	seen := 0
	for _, line := range documentedLines(t, os.DirFS("../../..")) {
		commands, err := calls(line.text)
		if err != nil {
			t.Errorf("%s: %s: %v", line.at, line.text, err)
		}
		for _, args := range commands {
			seen++
			if err := understand(args, line.named); err != nil {
				t.Errorf("%s: berth %s: %v", line.at, strings.Join(args, " "), err)
			}
		}
	}
	t.Logf("%d commands", seen)
	if seen < 50 {
		t.Errorf("only %d commands were found: is this the top of the repository?", seen)
	}
}

func TestUnknownFlagsInDocumentsAreFound(t *testing.T) {
	for _, command := range []string{"up --no-such-flag", "explain pod", "deschedule --shards 2", "no-such-command"} {
		if understand(strings.Fields(command), false) == nil {
			t.Errorf("berth %s: taken for a command", command)
		}
	}
}

// understand parses a command as main would, without running it. A command that is only named may omit its arguments,
// all of them.
func understand(args []string, named bool) error {
	cmd, rest, err := newRootCommand().Find(args)
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	given := cmd.Flags().Args()
	if named && len(given) == 0 {
		return nil
	}
	return cmd.ValidateArgs(given)
}

// documentedLine is a command, or the name of one in a sentence.
type documentedLine struct {
	at, text string
	named    bool
}

func documentedLines(t *testing.T, top fs.FS) (lines []documentedLine) {
	t.Helper()
	err := fs.WalkDir(top, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".build", ".git", "decisions"}, entry.Name()):
			return fs.SkipDir
		case filepath.Ext(name) != ".md" || name == "docs/commands.md": // it is generated from the commands
			return nil
		}
		data, err := fs.ReadFile(top, name)
		lines = append(lines, commandsIn(name, string(data))...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// inline matches a berth command in the middle of a sentence.
var inline = regexp.MustCompile("`(berth [a-z][^`]*)`")

// commandsIn returns the commands in a document's code blocks, and in its sentences. A line that ends in a backslash
// continues in the next. A line without a prompt is output where other lines have one, and in text blocks.
func commandsIn(name, text string) (found []documentedLine) {
	block, prompt, begun := false, false, ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if fence := strings.TrimSpace(line); strings.HasPrefix(fence, "```") {
			block, prompt, begun = !block, fence == "```text", ""
			continue
		}
		line = begun + line
		if !block {
			for _, m := range inline.FindAllStringSubmatch(line, -1) {
				found = append(found, documentedLine{name, m[1], true})
			}
		}
		if begun = ""; block && strings.HasSuffix(line, `\`) {
			begun = strings.TrimSuffix(line, `\`)
			continue
		}
		prompt = prompt || strings.HasPrefix(line, "$ ")
		m := documented.FindStringSubmatch(line)
		if block && m != nil && strings.HasPrefix(line, "$ ") == prompt {
			found = append(found, documentedLine{name, m[1], false})
		}
	}
	return found
}

// calls returns the calls of berth in a line that a shell would read: the words of each, without the program's own
// name. A word that a shell would expand counts as one word.
func calls(line string) (list [][]string, err error) {
	file, err := syntax.NewParser().Parse(strings.NewReader(line), "")
	if err != nil {
		return nil, err
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		call, ok := n.(*syntax.CallExpr)
		if !ok {
			return true
		}
		var words []string
		for _, w := range call.Args {
			if !several(w) {
				words = append(words, word(w))
			}
		}
		if len(words) > 1 && words[0] == "kubectl" {
			words = words[1:]
		}
		if len(words) > 1 && filepath.Base(words[0]) == "berth" {
			list = append(list, words[1:])
		}
		return true
	})
	return list, nil
}

// several reports whether a word is a variable that stands for flags: one of those that `make ha-up` sets.
func several(w *syntax.Word) bool {
	if len(w.Parts) != 1 {
		return false
	}
	variable, ok := w.Parts[0].(*syntax.ParamExp)
	return ok && strings.HasPrefix(variable.Param.Value, "BERTH_")
}

// word returns a word without its quotes.
func word(w *syntax.Word) string {
	if literal := w.Lit(); literal != "" {
		return literal
	}
	if len(w.Parts) == 1 {
		switch part := w.Parts[0].(type) {
		case *syntax.SglQuoted:
			return part.Value
		case *syntax.DblQuoted:
			if len(part.Parts) == 1 {
				return word(&syntax.Word{Parts: part.Parts})
			}
		}
	}
	return "substituted"
}
