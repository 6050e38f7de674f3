package rules_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/test/rules"
)

// top is the top of the repository as seen from this package's folder.
const top = "../.."

func TestHouseRules(t *testing.T) {
	repo, err := rules.Load(os.DirFS(top))
	if err != nil {
		t.Fatal(err)
	}
	report := rules.Run(repo, rules.All())
	for _, finding := range report.Findings {
		t.Error(finding)
	}
	for _, paid := range rules.PaidDebts(repo) {
		t.Errorf("test/rules/debts.go: %s — lower it: a debt that has been paid hides the next one", paid)
	}
	var waived []string
	for _, name := range slices.Sorted(maps.Keys(report.Waived)) {
		waived = append(waived, fmt.Sprintf("%s %d", name, report.Waived[name]))
	}
	if len(waived) == 0 {
		waived = []string{"none"}
	}
	t.Logf("%d Go files, %d rules, waivers: %s", len(repo.Go), len(rules.All()), strings.Join(waived, ", "))
}

func TestEveryRuleExplainsItself(t *testing.T) {
	seen := map[string]bool{}
	for _, rule := range rules.All() {
		if rule.Name == "" || rule.Why == "" || rule.Check == nil {
			t.Errorf("rule %q lacks a name, a why or a check", rule.Name)
		}
		if seen[rule.Name] {
			t.Errorf("two rules are called %q: a waiver would cover both", rule.Name)
		}
		seen[rule.Name] = true
	}
}
