package intake

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// No list may be older than the one before it, whichever API server answers.
func TestListsAreConsistentReads(t *testing.T) {
	for name, c := range map[string]struct {
		options metav1.ListOptions
		want    string
	}{
		"the first list":  {metav1.ListOptions{ResourceVersion: "0"}, ""},
		"a later list":    {metav1.ListOptions{ResourceVersion: "40"}, ""},
		"a streamed list": {metav1.ListOptions{Watch: true, ResourceVersion: "40", SendInitialEvents: new(bool)}, ""},
		"a watch":         {metav1.ListOptions{Watch: true, ResourceVersion: "40"}, "40"},
	} {
		if consistent(&c.options); c.options.ResourceVersion != c.want {
			t.Errorf("%s is asked for at %q, want %q", name, c.options.ResourceVersion, c.want)
		}
	}
}
