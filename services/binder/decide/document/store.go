package document

import (
	"maps"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/services/binder/decide/basis"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// document is the binder's knowledge of one node's document.
type document struct {
	nodeUID string
	// revision is that of the newest version seen. ahead is that version as long as the ledger view does not have it:
	// a transaction or a read has shown it before the watch. It is zero otherwise.
	revision int64
	ahead    ledger.NodeDoc
	// since is when this revision was first seen. sweptAt is when the document was last checked for entries to sweep;
	// most of them belong to pods that take their time to stop.
	since, sweptAt time.Time
	// vouched is when this binder emitted the last transaction or read whose answer showed this document: the view's
	// content of it was valid then, or is later.
	vouched time.Time
	op      effect.OpID
}

// Store has the documents of all nodes, as the ledger view shows them or newer.
type Store struct {
	base *basis.Base
	docs map[string]*document
}

// NewStore returns a store without documents.
func NewStore(base *basis.Base) *Store { return &Store{base: base, docs: map[string]*document{}} }

// Get returns the document of a node.
func (s *Store) Get(nodeUID string) (ledger.NodeDoc, bool) {
	d, ok := s.docs[nodeUID]
	switch {
	case !ok:
		return ledger.NodeDoc{}, false
	case d.ahead.Revision > 0:
		return d.ahead, true
	}
	return s.base.Ledger.Doc(nodeUID)
}

// Nodes returns the sorted UIDs of the nodes with a document.
func (s *Store) Nodes() []string { return slices.Sorted(maps.Keys(s.docs)) }

// Learn adopts a document if it is newer than the known one, and reports whether it is.
func (s *Store) Learn(doc ledger.NodeDoc) (newer bool) {
	d := s.docs[doc.NodeUID]
	if d == nil {
		d = &document{nodeUID: doc.NodeUID}
		s.docs[doc.NodeUID] = d
	}
	if newer = d.revision == 0 || doc.Revision > d.revision; newer {
		d.revision, d.since = doc.Revision, s.base.Now
		d.ahead = doc
	}
	if shown, ok := s.base.Ledger.Doc(doc.NodeUID); ok && shown.Revision >= d.revision {
		d.ahead = ledger.NodeDoc{}
	}
	return newer
}

// Forget drops a document that a revision of the ledger deleted, unless a transaction has put or shown it at a later
// revision: then it was created since. It reports whether the document was dropped.
func (s *Store) Forget(nodeUID string, by int64) bool {
	d, ok := s.docs[nodeUID]
	if !ok || d.revision > by {
		return false
	}
	delete(s.docs, nodeUID)
	return true
}

// Vouch records that the answer to op shows the view's content of a document. It dates the document from when the
// operation was emitted, not from its answer: the store answered in between.
func (s *Store) Vouch(nodeUID string, op effect.OpID) {
	if d, ok := s.docs[nodeUID]; ok && s.base.Since(op).After(d.vouched) {
		d.vouched = s.base.Since(op)
	}
}

// Vouched returns when a document was valid at the latest, by the answers to this binder's requests. What the watch
// delivers does not count: after an interruption it may be arbitrarily old.
func (s *Store) Vouched(nodeUID string) (at time.Time, known bool) {
	d, ok := s.docs[nodeUID]
	if !ok {
		return time.Time{}, false
	}
	return d.vouched, true
}

// Distrust forgets when a document was last vouched for, so that it has to be read again.
func (s *Store) Distrust(nodeUID string) {
	if d, ok := s.docs[nodeUID]; ok {
		d.vouched = time.Time{}
	}
}
