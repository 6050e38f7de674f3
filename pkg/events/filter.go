package events

import (
	"fmt"
	"slices"
	"strings"
)

// FactsAbout and DecisionsAbout are filters for History.About: what the log has about one
// object of a kind, and about one pod.
func FactsAbout(k Kind, uid string) string {
	return subjectFacts + "." + subjectToken(string(k)) + "." + subjectToken(uid) + ".>"
}

// DecisionsAbout is a filter for History.About: all decisions about one pod.
func DecisionsAbout(podUID string) string {
	return subjectDecisions + "." + subjectToken(podUID) + ".>"
}

// DecisionsOf is a filter for History.About: the decisions of one kind about all pods.
func DecisionsOf(k DecisionKind) string { return subjectDecisions + ".*." + subjectToken(string(k)) }

// CheckFilter returns an error when filter is not a subject of s with wildcards in it.
func CheckFilter(s Stream, filter string) error {
	if err := s.Check(); err != nil {
		return err
	}
	tokens := strings.Split(filter, ".")
	wrong := slices.Contains(tokens, "") || slices.Contains(tokens[:len(tokens)-1], ">")
	if len(tokens) < 2 || tokens[0] != s.Prefix() || wrong {
		return fmt.Errorf("events: stream %s: filter %q, want %s.… with * for a token and > for the rest",
			s, filter, s.Prefix())
	}
	return nil
}

// Matches says whether a subject matches a filter.
func Matches(filter, subject string) bool {
	want, have := strings.Split(filter, "."), strings.Split(subject, ".")
	for i, token := range want {
		switch {
		case i == len(have):
			return false
		case token == ">":
			return true
		case token != "*" && token != have[i]:
			return false
		}
	}
	return len(want) == len(have)
}
