package past

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"
)

// A bundle may come from an untrusted source and must not fill the memory of the process that reads it. The limits
// bound what is held of a bundle and what its members unpack to: a record or a snapshot that is compressed to nearly
// nothing is refused before it is held.
const (
	// maxManifest bounds the manifest, which has some hundred bytes.
	maxManifest = 1 << 20
	// maxConfig bounds each configuration file: a ConfigMap holds no more.
	maxConfig = 1 << 20
	// maxLine bounds one record in its encoded form: several times eventlog.MaxMessage.
	maxLine = 4 << 20
	// maxSnapshot bounds the snapshot: several times the size for a cluster of a hundred thousand nodes.
	maxSnapshot = 16 << 30
	// maxRatio bounds the unpacked size of a stream or the snapshot by the number of bytes read from the file for it;
	// freeBytes are exempt. Logs reach a ratio of 15 to 90; export pads members that compress better.
	maxRatio  = 200
	freeBytes = 64 << 20
	// maxWindow bounds how far back compressed data may refer. The encoder uses a quarter of it.
	maxWindow = 32 << 20
)

// readAtMost reads everything, and fails beyond a number of bytes.
func readAtMost(r io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("larger than the limit of %d bytes", limit)
	}
	return data, err
}

// unpacker unpacks members, one after the other, within the limits. The zero value is ready for open; it must be
// closed after use.
type unpacker struct {
	z *zstd.Decoder
	// file is the decoder's input. packed and unpacked count the bytes of all members before and after decompression.
	file             io.Reader
	packed, unpacked int64
	// most is an additional bound for unpacked; 0 for none.
	most int64
}

// open opens a member.
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

// close releases the decoder. It may be called on the zero value.
func (u *unpacker) close() {
	if u.z != nil {
		u.z.Close()
	}
}

// Read reads unpacked data. It fails when a limit is exceeded, with the data that was read so far: the caller's buffer
// bounds by how much.
func (u *unpacker) Read(p []byte) (int, error) {
	n, err := u.z.Read(p)
	u.unpacked += int64(n)
	switch {
	case u.most > 0 && u.unpacked > u.most:
		return n, fmt.Errorf("unpacks to more than the limit of %d bytes", u.most)
	case u.unpacked > freeBytes+maxRatio*u.packed:
		return n, fmt.Errorf("%d packed bytes unpack to more than %d: want at most %d plus %d for each of them",
			u.packed, u.unpacked-int64(n), freeBytes, maxRatio)
	}
	return n, err
}

// packedReader counts the bytes that the decoder reads.
type packedReader struct{ u *unpacker }

// Read reads compressed data.
func (r packedReader) Read(p []byte) (int, error) {
	n, err := r.u.file.Read(p)
	r.u.packed += int64(n)
	return n, err
}

// pack compresses a member so that an unpacker accepts it: if the result would be too small for maxRatio, it is
// preceded by a frame that decoders skip. Source of the frame's format: RFC 8878, section 3.1.2.
func pack(z *zstd.Encoder, content []byte) []byte {
	const (
		magic      = 0x184D2A50
		headerSize = 8
	)
	packed := z.EncodeAll(content, nil)
	// The padding costs half a percent of the content's size, and only for content that compresses better than
	// maxRatio.
	missing := len(content)/maxRatio - len(packed)
	if missing <= 0 {
		return packed
	}
	frame := make([]byte, headerSize+missing, headerSize+missing+len(packed))
	binary.LittleEndian.PutUint32(frame, magic)
	binary.LittleEndian.PutUint32(frame[4:], uint32(missing))
	return append(frame, packed...)
}
