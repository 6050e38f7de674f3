package events

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-scheduler/berth/pkg/events/eventlog"
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

// FactsAbout returns the query for the log's facts about one object of a kind.
func FactsAbout(k Kind, uid string) eventlog.Query {
	return eventlog.Query{Filter: eventlog.SubjectFacts + "." + subjectToken(string(k)) + "." + bucketOf(uid) + ".>",
		UID: uid}
}

// DecisionsAbout returns the query for all decisions about one pod.
func DecisionsAbout(podUID string) eventlog.Query {
	return eventlog.Query{Filter: eventlog.SubjectDecisions + "." + bucketOf(podUID) + ".>", UID: podUID}
}

// DecisionsOf returns the query for the decisions of one kind about all pods.
func DecisionsOf(k DecisionKind) eventlog.Query {
	return eventlog.Query{Filter: eventlog.SubjectDecisions + ".*." + subjectToken(string(k))}
}

// CheckFilter returns an error when filter is not a subject of s, possibly with wildcards.
func CheckFilter(s eventlog.Stream, filter string) error {
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
