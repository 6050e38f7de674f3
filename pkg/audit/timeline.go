package audit

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/audit/recording"
)

// maxLogPause is how long a shard may still count a pod that is gone: the longest pause of the log that the oracle
// allows for.
const maxLogPause = time.Minute

// timeline relates the order of the ledger to that of the API server: the marks of the recording, by revision, and
// its end.
type timeline struct {
	marks []recording.Mark
	end   *recording.End // nil: the recorder was interrupted
}

// sort puts the marks in the order of the ledger.
func (t *timeline) sort() {
	slices.SortStableFunc(t.marks, func(x, y recording.Mark) int { return cmp.Compare(x.Ledger, y.Ledger) })
}

// firstMark returns the index of the first mark that was made at a revision or after it, len(marks) for none.
func (t *timeline) firstMark(revision int64) int {
	i, _ := slices.BinarySearchFunc(t.marks, revision, func(m recording.Mark, r int64) int {
		return cmp.Compare(m.Ledger, r)
	})
	return i
}

// latest returns a resourceVersion of the API server at which the ledger had not yet gone beyond revision: a
// decision at revision knew nothing newer.
func (t *timeline) latest(revision int64) uint64 {
	i := t.firstMark(revision)
	if i < len(t.marks) {
		return t.marks[i].Objects
	}
	if t.end != nil && t.end.Ledger >= revision {
		return t.end.Objects
	}
	return ^uint64(0) - 1
}

// before returns a resourceVersion that the API server had certainly reached before a revision.
func (t *timeline) before(revision int64) uint64 {
	var rv uint64
	for _, m := range t.marks {
		if m.Until < revision {
			rv = max(rv, m.Objects)
		}
	}
	return rv
}

// longAgo returns the last mark that was made more than maxLogPause before this revision; zero if there is none.
func (t *timeline) longAgo(revision int64) recording.Mark {
	now := t.now(revision)
	n, _ := slices.BinarySearchFunc(t.marks, now-maxLogPause.Milliseconds(), func(m recording.Mark, unix int64) int {
		return cmp.Compare(m.Unix, unix)
	})
	if n == 0 {
		return recording.Mark{}
	}
	return t.marks[n-1]
}

// now returns the recorder's clock at this revision, in milliseconds, or shortly before.
func (t *timeline) now(revision int64) int64 {
	i := t.firstMark(revision)
	if i == 0 {
		return 0
	}
	return t.marks[i-1].Unix
}

// since returns the recorder's time from a revision to the last mark.
func (t *timeline) since(revision int64) time.Duration {
	for _, m := range t.marks {
		if m.Ledger >= revision {
			return time.Duration(t.marks[len(t.marks)-1].Unix-m.Unix) * time.Millisecond
		}
	}
	return 0
}

// cutOff reports whether the recording of the ledger may have ended before the reservation of a bind.
func (t *timeline) cutOff(bound moment) bool {
	if t.end != nil && t.end.Reason == recording.EndStopped {
		return bound.rv > t.end.Objects
	}
	return len(t.marks) == 0 || bound.rv > t.marks[len(t.marks)-1].Objects
}
