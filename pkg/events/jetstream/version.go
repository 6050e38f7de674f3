package jetstream

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"
)

// OldestServer is the oldest version of NATS that is accepted: the first with atomic batches (ADR-50). The server
// that this client is connected to is checked by its version, and the server that creates the streams by what it
// has kept of their configuration (checkKept).
const OldestServer = "2.12.0"

// checkVersion returns an error for a version before OldestServer. A pre-release counts as its release. A version that
// cannot be read is accepted.
func checkVersion(server, has string) error {
	v, err := version.ParseGeneric(has)
	if err == nil && v.LessThan(version.MustParseGeneric(OldestServer)) {
		return fmt.Errorf("%s has version %s, want %s or later", server, has, OldestServer)
	}
	return nil
}
