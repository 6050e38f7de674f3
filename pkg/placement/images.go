package placement

import (
	"strings"

	"github.com/berth-scheduler/berth/pkg/state"
)

// imageLocality prefers nodes that already have the pod's images, large and widespread ones most. Source:
// plugins/imagelocality.
type imageLocality struct{}

// The range of image sizes that scores cover, in bytes; the upper end is per container.
const (
	minImageBytes int64 = 23 << 20
	maxImageBytes int64 = 1000 << 20
)

// Name implements Plugin.
func (imageLocality) Name() string { return ImageLocality }

// Events implements Plugin.
func (imageLocality) Events() []Event { return nil }

// Hint implements Plugin.
func (imageLocality) Hint(*state.Pod, Change) bool { return false }

// Compile implements Plugin.
func (imageLocality) Compile(pod *state.Pod, _ Objects) (Compiled, error) {
	spec := &pod.Template.Spec
	s := imageScorer{containers: int64(len(spec.InitContainers) + len(spec.Containers))}
	for _, c := range spec.InitContainers {
		s.images = append(s.images, imageName(c.Image))
	}
	for _, c := range spec.Containers {
		s.images = append(s.images, imageName(c.Image))
	}
	for _, v := range spec.Volumes {
		if v.Image != nil {
			s.images = append(s.images, imageName(v.Image.Reference))
		}
	}
	return Compiled{Scorer: s}, nil
}

// imageName adds the default tag.
func imageName(name string) string {
	if strings.LastIndex(name, ":") <= strings.LastIndex(name, "/") {
		name += ":latest"
	}
	return name
}

// imageScorer scores by the images that a node has. worth is per image, 0 for one that no node has; nil before
// Survey.
type imageScorer struct {
	containers int64
	images     []string
	worth      []int64
}

// Survey computes what each image is worth: its size times the share of nodes that have it, so that a rare image
// does not attract every pod to the one node that has it. The size is that on the first node that has the image, as
// in upstream's cache.
func (s imageScorer) Survey(all, _ []*state.NodeInfo) Scorer {
	s.worth = make([]int64, len(s.images))
	for i, image := range s.images {
		var size, holders int64
		for _, n := range all {
			bytes, ok := n.Node.Images.Bytes(image)
			if ok && holders == 0 {
				size = bytes
			}
			if ok {
				holders++
			}
		}
		s.worth[i] = imageWorth(size, holders, len(all))
	}
	return s
}

// imageWorth returns the size of an image times the share of nodes that have it.
func imageWorth(size, holders int64, nodes int) int64 {
	return int64(float64(size) * (float64(holders) / float64(nodes)))
}

// Score implements Scorer.
func (s imageScorer) Score(n *state.NodeInfo) int64 {
	var sum int64
	if n.Node.Images != nil {
		for i, worth := range s.worth {
			if worth == 0 {
				continue
			}
			if _, ok := n.Node.Images.Bytes(s.images[i]); ok {
				sum += worth
			}
		}
	}
	return s.scale(sum)
}

// scale scales the worth of a node's images to MinScore..MaxScore.
func (s *imageScorer) scale(sum int64) int64 {
	top := maxImageBytes * s.containers
	sum = min(max(sum, minImageBytes), top)
	return MaxScore * (sum - minImageBytes) / (top - minImageBytes)
}
