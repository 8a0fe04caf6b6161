package account

// UseCheapHashes makes passwords fast for tests that are about something else.
func (s *Service) UseCheapHashes() {
	s.hasher = newHasher(s.o.Rand, cost{memory: 64, rounds: 1, lanes: 1})
}
