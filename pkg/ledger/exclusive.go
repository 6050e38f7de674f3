package ledger

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ExclusiveDoc records which reserved pods hold a resource that only one pod may have and that belongs to no single
// node, until the API server shows it. The resource is a volume that one pod at a time may use
// (x/vol/<namespace>/<pvc name> and x/vol/<pvc uid>), or items of a device pool that several nodes reach
// (x/pool/<driver>/<pool>).
//
// It is counted like a node's document: what the facts show as taken and what a holder has are both taken, and no
// member whose facts are older than the high-water may use it. It is deleted when its volume or pool is gone
// (Collect).
type ExclusiveDoc struct {
	// Key is KeyVolumeClaim, KeyVolume or KeyPool.
	Key string
	// HW is the high-water per kind of fact.
	HW      map[string]uint64
	Holders []Holder
	// Revision is the mod revision the document was read at; 0 when it does not exist. In that case Floor is the
	// revision of the Floor under which its absence was read.
	Revision, Floor int64
	Later           string
}

// Version returns the version of the document. A decision that has counted it may commit only on that version.
func (x ExclusiveDoc) Version() Version {
	if x.Revision > 0 {
		return Version{Revision: x.Revision}
	}
	return Version{Floor: x.Floor}
}

// Holder is a reserved pod that has the volume, or items of the pool.
type Holder struct {
	PodUID string
	// Token is that of the pod's reservation, NodeUID the node whose document has it. The holder is dropped when
	// the reservation is gone.
	Token   Token
	NodeUID string
	// Items are those of the pool, sorted; a volume has none, as it is held as a whole.
	Items []string
	Later string
}

// KeyVolumeClaim is the key of a claim's volume that one pod at a time may use. Pods refer to claims by name: users of
// a claim and of a later claim with the same name meet at this key.
func KeyVolumeClaim(namespace, name string) string { return PrefixVolume + namespace + "/" + name }

// ParseVolumeClaim is the inverse of KeyVolumeClaim; false for every other key.
func ParseVolumeClaim(key string) (namespace, name string, ok bool) {
	rest, ok := strings.CutPrefix(key, PrefixVolume)
	if !ok {
		return "", "", false
	}
	return strings.Cut(rest, "/")
}

// KeyVolume is the key of the same volume by the claim's UID. A holder of a claim holds both keys: members of
// versions without KeyVolumeClaim know only this one.
func KeyVolume(claimUID string) string { return PrefixVolume + claimUID }

// KeyPool is the key of a pool of devices that several nodes reach.
func KeyPool(driver, pool string) string { return PrefixPool + driver + "/" + pool }

// IsExclusiveKey reports whether a key is that of a volume or a pool.
func IsExclusiveKey(key string) bool {
	return strings.HasPrefix(key, PrefixVolume) && len(key) > len(PrefixVolume) ||
		strings.HasPrefix(key, PrefixPool) && len(key) > len(PrefixPool)
}

// DocKey returns the key of the document.
func (x ExclusiveDoc) DocKey() string { return x.Key }

// ReadAt returns the revision that the document was read at, 0 if it does not exist.
func (x ExclusiveDoc) ReadAt() int64 { return x.Revision }

// ReadUnder returns the revision of the Floor under which the absence of the document was read.
func (x ExclusiveDoc) ReadUnder() int64 { return x.Floor }

// Blank returns the document in the form that stands for one that does not exist.
func (x ExclusiveDoc) Blank() ExclusiveDoc { return ExclusiveDoc{Key: x.Key} }

// Clone returns a document whose lists and high-waters may be changed.
func (x ExclusiveDoc) Clone() ExclusiveDoc {
	x.Holders = slices.Clone(x.Holders)
	x.HW = maps.Clone(x.HW)
	return x
}

// TakenError reports that another pod already holds an exclusive volume or item.
type TakenError struct {
	Key, PodUID string
	// Holder is the pod that has it; Item is empty for a volume.
	Holder, Item string
}

func (e *TakenError) Error() string {
	if e.Item == "" {
		return fmt.Sprintf("ledger: %s cannot be held for pod %s: held by pod %s", e.Key, e.PodUID, e.Holder)
	}
	return fmt.Sprintf("ledger: %s: item %q cannot be held for pod %s: held by pod %s", e.Key, e.Item, e.PodUID, e.Holder)
}

// AddHolder adds a holder, in the transaction that reserves for the pod (T1, T2, T4). It returns a *TakenError if the
// volume, or one of the items, is held. The caller must check that the facts show it free and have reached the
// high-water.
func (x ExclusiveDoc) AddHolder(h Holder) (ExclusiveDoc, error) {
	volume := strings.HasPrefix(x.Key, PrefixVolume)
	if !IsExclusiveKey(x.Key) || h.PodUID == "" || h.Token == 0 || h.NodeUID == "" || volume != (len(h.Items) == 0) {
		return ExclusiveDoc{}, fmt.Errorf(
			"ledger: hold %q for %+v: want a volume or pool, a pod, its reservation's token and node, and items of a pool",
			x.Key, h)
	}
	for _, other := range x.Holders {
		if volume {
			return ExclusiveDoc{}, &TakenError{Key: x.Key, PodUID: h.PodUID, Holder: other.PodUID}
		}
		for _, item := range h.Items {
			if slices.Contains(other.Items, item) {
				return ExclusiveDoc{}, &TakenError{Key: x.Key, PodUID: h.PodUID, Holder: other.PodUID, Item: item}
			}
		}
	}
	x = x.Clone()
	h.Items = slices.Compact(slices.Sorted(slices.Values(h.Items)))
	x.Holders = append(x.Holders, h)
	if err := x.CheckRoom(); err != nil {
		return ExclusiveDoc{}, err
	}
	return x, nil
}

// ReleaseHolder drops what a reservation holds when the reservation is removed without ever having been bindable, which
// is to say a hold that is displaced or aborted. It returns false if the reservation holds nothing.
func (x ExclusiveDoc) ReleaseHolder(token Token) (ExclusiveDoc, bool) {
	of := func(h Holder) bool { return h.Token == token }
	if !slices.ContainsFunc(x.Holders, of) {
		return x, false
	}
	x = x.Clone()
	x.Holders = slices.DeleteFunc(x.Holders, of)
	return x, true
}

// KeepHolderFields returns x, in which a reservation was dropped and holds again, with the later-version fields that
// its holder had before.
func (x ExclusiveDoc) KeepHolderFields(before ExclusiveDoc, token Token) ExclusiveDoc {
	of := func(h Holder) bool { return h.Token == token }
	was, is := slices.IndexFunc(before.Holders, of), slices.IndexFunc(x.Holders, of)
	if was < 0 || is < 0 {
		return x
	}
	x = x.Clone()
	x.Holders[is].Later = before.Holders[was].Later
	return x
}
