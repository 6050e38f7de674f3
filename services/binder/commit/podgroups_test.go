package commit

import (
	"encoding/json"
	"errors"
	"log/slog"
	"testing"

	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// A condition is written to the version of the group that it was decided for, and to no other.
func TestGroupConditionNamesItsVersion(t *testing.T) {
	resource := schedulingv1alpha2.SchemeGroupVersion.WithResource("podgroups").GroupResource()
	for name, test := range map[string]struct {
		err  error
		want effect.Result
	}{
		"this version":    {nil, effect.Done},
		"another version": {apierrors.NewConflict(resource, "train", errors.New("it moved")), effect.Gone},
		"no group":        {apierrors.NewNotFound(resource, "train"), effect.Gone},
		"no answer":       {errors.New("the connection is gone"), effect.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset()
			var sent struct{ Metadata metav1.ObjectMeta }
			client.PrependReactor("patch", "podgroups", func(a clienttesting.Action) (bool, runtime.Object, error) {
				patch, is := a.(clienttesting.PatchAction)
				if !is || patch.GetSubresource() != "status" {
					t.Fatalf("%v is no patch of the status", a)
				}
				if err := json.Unmarshal(patch.GetPatch(), &sent); err != nil {
					t.Fatal(err)
				}
				return true, &schedulingv1alpha2.PodGroup{}, test.err
			})
			g := podGroups{client: client, logger: slog.New(slog.DiscardHandler)}
			got := g.patch(t.Context(), effect.PatchGroup{
				Op: 7, Namespace: "ns", Name: "train", UID: "g", ResourceVersion: "12",
				Condition: metav1.Condition{Type: schedulingv1alpha2.PodGroupScheduled, Status: metav1.ConditionTrue},
			})
			if got.Result != test.want || got.Op != 7 {
				t.Errorf("%+v, want %v", got, test.want)
			}
			if sent.Metadata.ResourceVersion != "12" || sent.Metadata.UID != "g" {
				t.Errorf("the patch names UID %q and version %q, want g and 12",
					sent.Metadata.UID, sent.Metadata.ResourceVersion)
			}
		})
	}
}
