package columns

import (
	"github.com/berth-scheduler/berth/pkg/placement/internal/nodes"
	"github.com/berth-scheduler/berth/pkg/state"
)

// imageTable counts the nodes that have each image. Node statuses list up to 50 images, nearly all of which no
// pending pod uses, so that which nodes have an image is recorded only for images that a class watches.
type imageTable struct {
	byName map[string]*Image
	// of holds the images of each slot, as counted.
	of []*state.Images
}

// Image is an image that at least one node has.
type Image struct {
	// holders is the number of nodes that have the image.
	holders int
	// size is in bytes. mixed reports that nodes disagree about it; it is then looked up.
	size  int64
	mixed bool
	// slots has a bit for every node with the image; nil until a class needs it.
	slots []uint64
}

// wordBits is the number of slots per word of Image.slots.
const wordBits = 64

// IsOn reports whether the node of a slot has the image, once it is watched.
func (i *Image) IsOn(slot int) bool {
	return slot/wordBits < len(i.slots) && i.slots[slot/wordBits]&(1<<(slot%wordBits)) != 0
}

// put sets or clears the bit of a slot, if the image is watched.
func (i *Image) put(slot int, on bool) {
	if i.slots == nil {
		return
	}
	if lack := slot/wordBits + 1 - len(i.slots); lack > 0 {
		i.slots = GrowBy(i.slots, lack, 0)
	}
	if on {
		i.slots[slot/wordBits] |= 1 << (slot % wordBits)
	} else {
		i.slots[slot/wordBits] &^= 1 << (slot % wordBits)
	}
}

// Watch returns an image together with the set of nodes that have it; nil for an image that no node has.
func (t *imageTable) Watch(name string) *Image {
	i, ok := t.byName[name]
	if !ok || i.slots != nil {
		return i
	}
	i.slots = make([]uint64, len(t.of)/wordBits+1)
	for slot, images := range t.of {
		if _, ok := images.Bytes(name); ok {
			i.put(slot, true)
		}
	}
	return i
}

// replace counts the images of a slot again. Node objects change more often than the images on them; if the images
// did not change, the pointer is the same.
func (t *imageTable) replace(slot int, now *state.Images) {
	was := t.of[slot]
	if was == now {
		return
	}
	for name := range was.All() {
		i := t.byName[name]
		i.put(slot, false)
		if i.holders--; i.holders == 0 {
			delete(t.byName, name)
		}
	}
	for name, size := range now.All() {
		i, ok := t.byName[name]
		if !ok {
			i = &Image{size: size}
			t.byName[name] = i
		}
		i.holders++
		i.put(slot, true)
		i.mixed = i.mixed || i.size != size
	}
	t.of[slot] = now
}

// Worth returns what an image adds to the score of a node that has it; see nodes.ImageScorer. total is the number
// of nodes, and infos are all nodes, which are read only if they disagree about the size.
func (i *Image) Worth(name string, total int, infos []*state.NodeInfo) int64 {
	size := i.size
	if i.mixed {
		size = sizeOnFirst(name, infos)
	}
	return nodes.ImageWorth(size, int64(i.holders), total)
}

// sizeOnFirst returns the size on the first node, by name, that has the image. Upstream keeps the first size that
// it saw, which depends on history.
func sizeOnFirst(image string, infos []*state.NodeInfo) int64 {
	var (
		first string
		size  int64
	)
	for _, n := range infos {
		if n == nil {
			continue
		}
		if bytes, ok := n.Node.Images.Bytes(image); ok && (first == "" || n.Node.Name < first) {
			first, size = n.Node.Name, bytes
		}
	}
	return size
}
