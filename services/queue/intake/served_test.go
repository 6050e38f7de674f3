package intake

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2/ktesting"

	"github.com/berth-scheduler/berth/pkg/events"
)

// TestWhatIsNotServed checks that a group that the API server does not have, and a kind missing in one that it has,
// are logged once and not watched, while the rest is watched.
func TestWhatIsNotServed(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path != "/apis/"+storageVersion {
			w.WriteHeader(http.StatusNotFound)
			_ = json.NewEncoder(w).Encode(metav1.Status{
				TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
				Status:   metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound,
			})
			return
		}
		list := metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: storageVersion,
		}
		for _, k := range storageKinds {
			if k.kind != events.KindVolumeAttachment {
				list.APIResources = append(list.APIResources, metav1.APIResource{Name: k.resource})
			}
		}
		_ = json.NewEncoder(w).Encode(list)
	}))
	t.Cleanup(server.Close)
	cluster, err := Connect(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	list, err := cluster.served(t.Context(), logger)
	if err != nil {
		t.Fatal(err)
	}
	watches := func(k events.Kind) bool {
		return slices.ContainsFunc(list, func(w watched) bool { return w.kind == k })
	}
	for kind, want := range map[events.Kind]bool{
		events.KindPod: true, events.KindStorageClass: true, events.KindVolumeAttachment: false,
		events.KindResourceClaim: false, events.KindResourceSlice: false, events.KindDeviceClass: false,
	} {
		if watches(kind) != want {
			t.Errorf("%s is watched: %t, want %t", kind, !want, want)
		}
	}
	sink, ok := logger.GetSink().(ktesting.Underlier)
	if !ok {
		t.Fatalf("the sink is a %T", logger.GetSink())
	}
	logged := sink.GetBuffer().String()
	for _, what := range []string{deviceVersion, "volumeattachments"} {
		if n := strings.Count(logged, what); n != 1 {
			t.Errorf("%s is spoken of %d times, want once, in\n%s", what, n, logged)
		}
	}
}
