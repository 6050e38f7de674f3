package rules

import (
	"cmp"
	"fmt"
	"slices"
)

// Rule is one house rule.
type Rule struct {
	// Name is the rule's name in waivers; lower case, one word. Where a well-known linter checks the same thing it is
	// that linter's name, so that one waiver serves both.
	Name string
	// Why explains the harm that the rule prevents, and the alternative.
	Why string
	// Check finds the violations. It must not change the Repo.
	Check func(*Repo) []Finding
}

// Finding is one violation.
type Finding struct {
	// Rule is the name of the rule.
	Rule string
	// Path and Line are the location; Line counts from 1.
	Path string
	Line int
	// Detail describes the finding; Why is the rule's unless the check has a better one.
	Detail, Why string
}

// String is path:line: [rule] detail — why.
func (f Finding) String() string {
	return fmt.Sprintf("%s:%d: [%s] %s — %s", f.Path, f.Line, f.Rule, f.Detail, f.Why)
}

// Report is the outcome of All.
type Report struct {
	// Findings are the violations that no waiver covers, by path and line.
	Findings []Finding
	// Waived counts the violations that a waiver covers, by rule.
	Waived map[string]int
}

// All lists every rule in the order they are explained in CONTRIBUTING.md.
func All() []Rule {
	return slices.Concat(
		edgeRules(), pureRules(), sizeRules(), packageRules(), callRules(), shapeRules(), wordRules(), releaseRules(),
	)
}

// Run checks a checkout against rules. Waivers without a reason, and waivers of a house rule
// that cover nothing, are findings of the rule "waiver".
func Run(repo *Repo, rules []Rule) Report {
	report := Report{Waived: map[string]int{}}
	files := map[string]*GoFile{}
	for _, file := range repo.Go {
		files[file.Path] = file
	}
	for _, rule := range rules {
		for _, finding := range rule.Check(repo) {
			finding.Rule, finding.Why = rule.Name, cmp.Or(finding.Why, rule.Why)
			if file := files[finding.Path]; file != nil && file.waive(rule.Name, finding.Line) {
				report.Waived[rule.Name]++
				continue
			}
			report.Findings = append(report.Findings, finding)
		}
	}
	report.Findings = append(report.Findings, badWaivers(repo, rules)...)
	slices.SortStableFunc(report.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line))
	})
	return report
}
