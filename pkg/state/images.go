package state

import (
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/state/intern"
)

// Images are the images on a node. They are immutable. Nodes of this process with the same images have the same
// pointer, and nil means no images. All methods accept nil. They are not part of the node's form, because they
// change independently of the rest of the status.
type Images struct {
	list []*image
	// twice: some name occurs more than once.
	twice bool
}

// image is one image, which many nodes may hold.
type image struct {
	names []string
	bytes int64
}

// The images of all nodes of this process, and their lists.
var (
	knownImages intern.Table[image]
	imageLists  intern.Table[Images]
)

// newImages returns the shared images of a node. Nodes of one pool have mostly the same images, and each list is
// kept once. It keeps no reference to list.
func newImages(list []corev1.ContainerImage) *Images {
	if len(list) == 0 {
		return nil
	}
	return imageLists.Get(Marshalled(&corev1.NodeStatus{Images: list}), func() *Images {
		images := &Images{list: make([]*image, len(list))}
		seen := map[string]struct{}{}
		for i := range list {
			images.list[i] = knownImages.Get(Marshalled(&list[i]), func() *image {
				return &image{names: slices.Clone(list[i].Names), bytes: list[i].SizeBytes}
			})
			for _, name := range list[i].Names {
				_, again := seen[name]
				images.twice = images.twice || again
				seen[name] = struct{}{}
			}
		}
		return images
	})
}

// Bytes returns the size of an image by any of its names; ok is false when the node does not have it. For a name
// that occurs twice it is the first size, as in upstream's cache (pkg/scheduler/backend/cache addNodeImageStates).
func (i *Images) Bytes(name string) (bytes int64, ok bool) {
	if i == nil {
		return 0, false
	}
	for _, im := range i.list {
		if slices.Contains(im.names, name) {
			return im.bytes, true
		}
	}
	return 0, false
}

// All yields every name once, with the size that Bytes returns. Its cost is linear in the number of names unless
// some name occurs twice on the node.
func (i *Images) All() iter.Seq2[string, int64] {
	return func(yield func(string, int64) bool) {
		if i == nil {
			return
		}
		for n, im := range i.list {
			for m, name := range im.names {
				if i.twice && i.listedBefore(n, m) {
					continue
				}
				if !yield(name, im.bytes) {
					return
				}
			}
		}
	}
}

// listedBefore reports whether name m of image n also occurs before it.
func (i *Images) listedBefore(n, m int) bool {
	names := i.list[n].names
	return slices.Contains(names[:m], names[m]) ||
		slices.ContainsFunc(i.list[:n], func(im *image) bool { return slices.Contains(im.names, names[m]) })
}

// api returns the list from which the images were made.
func (i *Images) api() []corev1.ContainerImage {
	if i == nil {
		return nil
	}
	list := make([]corev1.ContainerImage, len(i.list))
	for n, im := range i.list {
		list[n] = corev1.ContainerImage{Names: im.names, SizeBytes: im.bytes}
	}
	return list
}
