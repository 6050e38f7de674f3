package past

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"
)

// A bundle comes from somewhere else and must not fill the memory of the process that reads it. The limits bound what
// is held of one, and what its members unpack to: a record or a snapshot that is packed to nearly nothing is
// refused before it is held.
const (
	maxManifest = 1 << 20
	// maxConfig bounds each file of the configuration: a ConfigMap holds no more.
	maxConfig = 1 << 20
	// maxLine bounds one record as it is written: several times events.MaxMessage.
	maxLine = 4 << 20
	// maxSnapshot bounds the snapshot, several times what a cluster of a hundred thousand nodes takes.
	maxSnapshot = 16 << 30
	// maxRatio bounds what a stream or the snapshot unpacks to by what has been read of the file for it. freeBytes
	// are not counted. Logs reach a ratio of 15 to 90; export pads what is packed better.
	maxRatio  = 200
	freeBytes = 64 << 20
	// maxWindow bounds how far back packed data may refer. The encoder uses a quarter of it.
	maxWindow = 32 << 20
)

// readAtMost reads everything, and refuses more than a number of bytes.
func readAtMost(r io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("more than the %d bytes that are accepted", limit)
	}
	return data, err
}

// unpacker unpacks members, one after the other, within the limits. The zero value is ready for open; close it after
// use.
type unpacker struct {
	z *zstd.Decoder
	// file is the decoder's input. packed and unpacked count the bytes of all members before and after decompression.
	file             io.Reader
	packed, unpacked int64
	// most bounds unpacked besides; 0 for no bound.
	most int64
}

// open begins a member.
func (u *unpacker) open(file *os.File, m member) error {
	u.file = io.NewSectionReader(file, m.offset, m.size)
	if u.z != nil {
		return u.z.Reset(packedReader{u})
	}
	var err error
	u.z, err = zstd.NewReader(packedReader{u}, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(maxWindow))
	return err
}

func (u *unpacker) close() {
	if u.z != nil {
		u.z.Close()
	}
}

// Read unpacks.
func (u *unpacker) Read(p []byte) (int, error) {
	n, err := u.z.Read(p)
	u.unpacked += int64(n)
	switch {
	case u.most > 0 && u.unpacked > u.most:
		return n, fmt.Errorf("unpacks to more than %d bytes, the most that is accepted", u.most)
	case u.unpacked > freeBytes+maxRatio*u.packed:
		return n, fmt.Errorf("%d packed bytes unpack to more than %d: want at most %d plus %d for each of them",
			u.packed, u.unpacked-int64(n), freeBytes, maxRatio)
	}
	return n, err
}

// packedReader counts what the decoder reads.
type packedReader struct{ u *unpacker }

func (r packedReader) Read(p []byte) (int, error) {
	n, err := r.u.file.Read(p)
	r.u.packed += int64(n)
	return n, err
}

// pack packs a member so that an unpacker takes it: what would be too small for maxRatio follows on a frame that
// decoders skip. Source of the frame's form: RFC 8878, section 3.1.2.
func pack(z *zstd.Encoder, content []byte) []byte {
	const (
		magic      = 0x184D2A50
		headerSize = 8
	)
	packed := z.EncodeAll(content, nil)
	missing := len(content)/maxRatio - len(packed)
	if missing <= 0 {
		return packed
	}
	frame := make([]byte, headerSize+missing, headerSize+missing+len(packed))
	binary.LittleEndian.PutUint32(frame, magic)
	binary.LittleEndian.PutUint32(frame[4:], uint32(missing))
	return append(frame, packed...)
}
