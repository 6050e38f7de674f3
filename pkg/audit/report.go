package audit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/audit/recording"
)

// Severity is the severity of a finding.
type Severity string

const (
	// Violation is a broken promise: wrong in every order of events that the evidence allows. It makes `berth audit`
	// and `berth check` fail.
	Violation Severity = "violation"
	// Warning is a state that Berth did not cause, that may have arisen after the decision, or that is suspicious
	// without being wrong.
	Warning Severity = "warning"
)

// severityFor returns the severity of a conflict between pods: a violation if Berth bound all of them, otherwise a
// warning, since another scheduler does not reserve in the ledger.
func severityFor(ours bool) Severity {
	if ours {
		return Violation
	}
	return Warning
}

// Finding is one thing that should not be. It is a value, and part of the output formats json and yaml.
type Finding struct {
	Severity Severity `json:"severity"`
	// Invariant is its name in the protocol (S1 to S12, S14 to S17, L2, L7, or I3), "form" for a value that
	// is not valid, or "fit" for a node that the pod may not be placed on. Names of S are safety, of L liveness.
	Invariant string `json:"invariant"`
	// Revision of the ledger and ResourceVersion of the API server are where it shows; zero when it is only about
	// the other one.
	Revision        int64  `json:"revision,omitempty"`
	ResourceVersion uint64 `json:"resourceVersion,omitempty"`
	// Objects holds the objects it is about, as pod/<namespace>/<name>, node/<name>, ledger/<key> and so on.
	Objects []string `json:"objects"`
	// Message is a sentence about the first of them.
	Message string `json:"message"`
}

// String returns one line.
func (f Finding) String() string {
	at := ""
	if f.Revision != 0 {
		at += fmt.Sprintf(" at revision %d", f.Revision)
	}
	if f.ResourceVersion != 0 {
		at += fmt.Sprintf(" at resourceVersion %d", f.ResourceVersion)
	}
	return fmt.Sprintf("%s  %s%s  %s: %s", f.Severity, f.Invariant, at, strings.Join(f.Objects, " "), f.Message)
}

// Report is the result of checking a history.
type Report struct {
	// Complete reports that the history has an end, and no part of it was missed. Missing parts are described in
	// Notes; the rest is checked nevertheless.
	Complete bool     `json:"complete"`
	Notes    []string `json:"notes,omitempty"`
	// Revisions is the number of revisions of the ledger that were replayed, from First to Last; Versions is the
	// number of versions of objects.
	Revisions int   `json:"revisions"`
	First     int64 `json:"first"`
	Last      int64 `json:"last"`
	Versions  int   `json:"versions"`
	Counts    `json:"counts"`
	Findings  []Finding `json:"findings"`
	// Unlisted is the number of findings beyond the first maxPerInvariant of their invariant.
	Unlisted int `json:"unlisted,omitempty"`

	// perInvariant counts findings by severity and invariant, listed or not; unlisted counts those that are not
	// listed, by severity. Both are nil before the first finding.
	perInvariant map[string]int
	unlisted     map[Severity]int
}

// Counts summarises what happened in a history.
type Counts struct {
	Nodes int `json:"nodes"`
	Pods  int `json:"pods"`
	// Reserved counts reservations that were committed, Bound the observed binds by Berth, Foreign those by other
	// schedulers.
	Reserved int `json:"reserved"`
	Bound    int `json:"bound"`
	Foreign  int `json:"foreign"`
	// HandedOver and Fenced count reservations that were removed, Unresolved those that remain.
	HandedOver int `json:"handedOver"`
	Fenced     int `json:"fenced"`
	Unresolved int `json:"unresolved"`
	// Takeovers counts partitions that got another owner.
	Takeovers int `json:"takeovers"`
	// Nominated counts the places that were held for pods until others are evicted, Promoted those of them (and
	// other holds) that were committed, Abandoned those that were given up although pods had been evicted for them.
	// Evictions counts the claims on pods that were marked for eviction.
	Nominated int `json:"nominated"`
	Promoted  int `json:"promoted"`
	Abandoned int `json:"abandoned"`
	Evictions int `json:"evictions"`
	// Moves counts the places that were kept for the replacements of moved pods, TakenOver those of them that a pod
	// took.
	Moves     int `json:"moves"`
	TakenOver int `json:"takenOver"`
	// Gangs counts the revisions that reserved places for members of a PodGroup, separately for each group.
	Gangs int `json:"gangs"`
}

// maxPerInvariant bounds the findings that are listed for each severity and invariant; one error may show in every
// revision, and would hide the others.
const maxPerInvariant = 50

// add records a finding.
func (r *Report) add(f Finding) {
	if r.perInvariant == nil {
		r.perInvariant, r.unlisted = map[string]int{}, map[Severity]int{}
	}
	key := string(f.Severity) + f.Invariant
	if r.perInvariant[key]++; r.perInvariant[key] > maxPerInvariant {
		r.unlisted[f.Severity]++
		r.Unlisted++
		return
	}
	r.Findings = append(r.Findings, f)
}

// note records, once, what could not be checked.
func (r *Report) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(r.Notes, text) {
		r.Notes = append(r.Notes, text)
	}
}

// Violations counts the findings with that severity, including those that are not listed.
func (r *Report) Violations() int {
	n := r.unlisted[Violation]
	for _, f := range r.Findings {
		if f.Severity == Violation {
			n++
		}
	}
	return n
}

// sort puts violations first, then by revision, resourceVersion and object.
func (r *Report) sort() {
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(
			cmp.Compare(a.Severity, b.Severity), cmp.Compare(a.Revision, b.Revision),
			cmp.Compare(a.ResourceVersion, b.ResourceVersion), slices.Compare(a.Objects, b.Objects),
		)
	})
}

// findings adds what is wrong at one revision of the ledger to the report. All parts of a replay share it, so that
// only the walk (replay.step and relist) has to know which revision it is.
type findings struct {
	report *Report
	// revision is that of the ledger which is being checked; 0 before the first.
	revision int64
}

// violate reports a violation in the ledger at this revision.
func (f *findings) violate(invariant string, objects []string, message string, args ...any) {
	f.report.add(Finding{
		Severity: Violation, Invariant: invariant, Revision: f.revision, Objects: objects,
		Message: fmt.Sprintf(message, args...),
	})
}

// undecodable reports a value of the ledger that its codec refuses. The walk goes on: one damaged value must not
// hide the rest of the history.
func (f *findings) undecodable(ev recording.LedgerEvent, err error) {
	f.report.add(Finding{
		Severity: Violation, Invariant: "form", Revision: ev.Mod, Objects: []string{ledgerObject(ev.Key)},
		Message: "has a value that cannot be decoded: " + err.Error(),
	})
}
