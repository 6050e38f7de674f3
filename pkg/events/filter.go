package events

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
)

// subjectBuckets is how many buckets the subjects of a kind have for all objects together. A server keeps each
// subject in memory for as long as the log has a record of it; with a subject for each object, that would be every
// pod of three days. A query about one object reads the records of its bucket.
const subjectBuckets = 1 << 14

// bucketOf returns the token of an object in subjects, noToken if there is no object.
func bucketOf(uid string) string {
	if uid == "" {
		return noToken
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(uid)) // never fails
	return strconv.FormatUint(uint64(h.Sum32()%subjectBuckets), 36)
}

// Query selects the records of a stream that History finds.
type Query struct {
	// Filter is matched against their subjects: "*" stands for one token, a final ">" for one or more.
	Filter string
	// UID is that of the object that they are about; empty for any.
	UID string
}

// Finds reports whether the query selects a record.
func (q Query) Finds(r Record) bool {
	return Matches(q.Filter, r.Subject) && (q.UID == "" || r.Header.Get(HeaderUID) == escapeHeader(q.UID))
}

// FactsAbout returns the query for the log's facts about one object of a kind.
func FactsAbout(k Kind, uid string) Query {
	return Query{Filter: subjectFacts + "." + subjectToken(string(k)) + "." + bucketOf(uid) + ".>", UID: uid}
}

// DecisionsAbout returns the query for all decisions about one pod.
func DecisionsAbout(podUID string) Query {
	return Query{Filter: subjectDecisions + "." + bucketOf(podUID) + ".>", UID: podUID}
}

// DecisionsOf returns the query for the decisions of one kind about all pods.
func DecisionsOf(k DecisionKind) Query {
	return Query{Filter: subjectDecisions + ".*." + subjectToken(string(k))}
}

// CheckFilter returns an error when filter is not a subject of s, possibly with wildcards.
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

// Matches reports whether a subject matches a filter.
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
