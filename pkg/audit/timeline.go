package audit

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/audit/recording"
)

// maxLogPause is how long a shard may still count a pod that is gone: the longest pause of the log that the oracle
// allows for. Spread constraints and gangs need it, as they compare counts: a pod that ended longer ago cannot be the
// reason why a shard considered a domain fuller than it was.
const maxLogPause = time.Minute

// timeline relates the order of the ledger to that of the API server. For a revision it bounds the resourceVersions
// that the API server can have had, from lowerBound to upperBound. Without a mark and an end the bounds are 0 and the
// greatest version, which excuse everything.
type timeline struct {
	// marks are in the order of the ledger once sort was called; their clocks then ascend, too.
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

// upperBound returns a resourceVersion of the API server at which the ledger had not yet gone beyond revision: a
// decision at revision knew nothing newer. It is that of the first mark at or after the revision, whose
// resourceVersion was read after its revision.
func (t *timeline) upperBound(revision int64) uint64 {
	i := t.firstMark(revision)
	if i < len(t.marks) {
		return t.marks[i].Objects
	}
	if t.end != nil && t.end.Ledger >= revision {
		return t.end.Objects
	}
	// No mark follows. The greatest version but one leaves room for "version + 1".
	return ^uint64(0) - 1
}

// lowerBound returns a resourceVersion that the API server had certainly reached before a revision: the highest of the
// marks that were complete (Until) before it. It returns 0 if there is none.
func (t *timeline) lowerBound(revision int64) uint64 {
	var rv uint64
	for _, m := range t.marks {
		if m.Until < revision {
			rv = max(rv, m.Objects)
		}
	}
	return rv
}

// lastMarkBeforePause returns the last mark that was made more than maxLogPause before this revision; zero if there is
// none. What had ended at that mark is known to every shard that decides at the revision.
func (t *timeline) lastMarkBeforePause(revision int64) recording.Mark {
	now := t.recorderClock(revision)
	n, _ := slices.BinarySearchFunc(t.marks, now-maxLogPause.Milliseconds(), func(m recording.Mark, unix int64) int {
		return cmp.Compare(m.Unix, unix)
	})
	if n == 0 {
		return recording.Mark{}
	}
	return t.marks[n-1]
}

// recorderClock returns the recorder's clock at this revision, in milliseconds since 1970, or shortly before: the time
// of the last mark before it. It returns 0 before the first mark.
func (t *timeline) recorderClock(revision int64) int64 {
	i := t.firstMark(revision)
	if i == 0 {
		return 0
	}
	return t.marks[i-1].Unix
}

// elapsedSince returns the recorder's time from a revision to the last mark, 0 if no mark follows the revision.
func (t *timeline) elapsedSince(revision int64) time.Duration {
	for _, m := range t.marks {
		if m.Ledger >= revision {
			return time.Duration(t.marks[len(t.marks)-1].Unix-m.Unix) * time.Millisecond
		}
	}
	return 0
}

// cutOff reports whether the recording of the ledger may have ended before the reservation of a bind: the bind is
// newer than the point up to which the two orders are related. Such a bind is not judged.
func (t *timeline) cutOff(bound moment) bool {
	if t.end != nil && t.end.Reason == recording.EndStopped {
		return bound.rv > t.end.Objects
	}
	return len(t.marks) == 0 || bound.rv > t.marks[len(t.marks)-1].Objects
}
