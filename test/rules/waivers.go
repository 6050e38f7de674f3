package rules

import (
	"fmt"
	"go/token"
	"regexp"
	"slices"
	"strings"
)

// waiver is one //nolint comment.
type waiver struct {
	line int
	// alone: the line holds nothing else, so the waiver applies to the next line.
	alone bool
	// whole: the waiver is above the package clause and applies to the whole file.
	whole  bool
	rules  []string
	reason string
}

// waiverForm is the one accepted spelling.
var waiverForm = regexp.MustCompile(`^//nolint:([a-z0-9,-]+)(?: // (.+))?$`)

// waiversOf reads a file's waivers. Other spellings of nolint are the linter's to reject.
func waiversOf(fset *token.FileSet, f *GoFile) []waiver {
	var found []waiver
	for _, group := range f.AST.Comments {
		for _, comment := range group.List {
			match := waiverForm.FindStringSubmatch(comment.Text)
			if match == nil {
				continue
			}
			line := fset.Position(comment.Pos()).Line
			found = append(found, waiver{
				line:   line,
				alone:  strings.HasPrefix(strings.TrimSpace(f.Lines[line-1]), "//"),
				whole:  comment.Pos() < f.AST.Package,
				rules:  strings.Split(match[1], ","),
				reason: match[2],
			})
		}
	}
	return found
}

// waive reports whether a waiver with a reason covers a finding, and remembers that it was needed.
func (f *GoFile) waive(rule string, line int) bool {
	for i, w := range f.waivers {
		covers := w.whole || w.line == line || (w.alone && w.line == line-1)
		if covers && w.reason != "" && slices.Contains(w.rules, rule) {
			f.used[i] = true
			return true
		}
	}
	return false
}

// badWaivers finds waivers of house rules that give no reason or cover nothing. A waiver that
// also names a rule we do not know is left to the linter, which knows whether it is needed.
func badWaivers(repo *Repo, rules []Rule) []Finding {
	known := map[string]bool{}
	for _, rule := range rules {
		known[rule.Name] = true
	}
	var found []Finding
	for _, file := range repo.Go {
		for i, w := range file.waivers {
			finding := Finding{Rule: "waiver", Path: file.Path, Line: w.line}
			foreign := slices.ContainsFunc(w.rules, func(name string) bool { return !known[name] })
			switch {
			case w.reason == "":
				finding.Detail = fmt.Sprintf("waiver of %s without a reason", strings.Join(w.rules, ", "))
				finding.Why = "a waiver is a decision: write //nolint:<rule> // <why it is right here>"
				found = append(found, finding)
			case !file.used[i] && !foreign:
				finding.Detail = fmt.Sprintf("waiver of %s covers nothing", strings.Join(w.rules, ", "))
				finding.Why = "a waiver that is not needed hides the next violation: remove it"
				found = append(found, finding)
			}
		}
	}
	return found
}
