package events

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
)

// subjectBuckets is how many buckets the subjects of a kind have for all objects together. A server
// keeps each subject in memory for as long as the log has a record of it: with a subject for each
// object that would be every pod of three days. Who asks about one object reads what its bucket has.
const subjectBuckets = 1 << 14

// bucketOf is the token of an object in subjects, noToken for none.
func bucketOf(uid string) string {
	if uid == "" {
		return noToken
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(uid)) // never fails
	return strconv.FormatUint(uint64(h.Sum32()%subjectBuckets), 36)
}

// Query says which records of a stream History finds.
type Query struct {
	// Filter is what their subjects match: "*" stands for one token, a last ">" for one or more.
	Filter string
	// UID is that of the object which they are about; empty for any.
	UID string
}

// Finds says whether a record is one of those asked for.
func (q Query) Finds(r Record) bool {
	return Matches(q.Filter, r.Subject) && (q.UID == "" || r.Header.Get(HeaderUID) == escapeHeader(q.UID))
}

// FactsAbout asks for what the log has about one object of a kind.
func FactsAbout(k Kind, uid string) Query {
	return Query{Filter: subjectFacts + "." + subjectToken(string(k)) + "." + bucketOf(uid) + ".>", UID: uid}
}

// DecisionsAbout asks for all decisions about one pod.
func DecisionsAbout(podUID string) Query {
	return Query{Filter: subjectDecisions + "." + bucketOf(podUID) + ".>", UID: podUID}
}

// DecisionsOf asks for the decisions of one kind about all pods.
func DecisionsOf(k DecisionKind) Query {
	return Query{Filter: subjectDecisions + ".*." + subjectToken(string(k))}
}

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
