# CpuProfile: profiles of processor time as gperftools writes them: binary, words of 4 or 8 bytes in
# either order. They become text of our heap profile format whose objects are the samples and whose
# bytes are nanoseconds, so that what reads profiles of contention reads them too (Contention).
# Caller: Dump.
package CpuProfile;

use constant FRAMES_MAX => 65536; # of a stack; more is damage

# [template of unpack for a word, bytes of a word]
my @forms = (['Q<', 8], ['L<', 4], ['Q>', 8], ['L>', 4]);

# The profile as text of our own format; undef if it is none. One that ends before its end mark is a
# doubt, and what it holds is told. The words are: 0, number of words of the header behind these
# two (3 or more), 0, period in microseconds, 0; for each stack the number of samples, that of
# addresses, the addresses; and 0, 1, 0 at the end. The list of mapped objects follows.
sub heap_text {
	my ($path, $text) = @_;
	for my $form (@forms) {
		my ($word, $size) = @$form;
		my @head = unpack "$word*", substr $text, 0, 5 * $size;
		next if @head < 5 || $head[0] != 0 || $head[1] < 3 || $head[1] > 1000;
		next if $head[2] != 0 || $head[3] < 1 || $head[3] > 1e9;
		return written($path, $text, $word, $size, \@head);
	}
	return undef;
}

# The text in our form, of a profile whose first five words are @$head. The first address of a stack
# is that of an instruction, all others are those of returns, one of which Places subtracts from
# each.
sub written {
	my ($path, $text, $word, $size, $head) = @_;
	my $at = (2 + $head->[1]) * $size;
	my ($period, $is_whole, @rows) = ($head->[3] * 1000, 0);
	while ($at + 2 * $size <= length $text) {
		my ($samples, $count) = unpack "$word$word", substr $text, $at, 2 * $size;
		last if $count < 1 || $count > FRAMES_MAX || $at + (2 + $count) * $size > length $text;
		my ($first, @others) = unpack "$word$count", substr $text, $at + 2 * $size, $count * $size;
		$at += (2 + $count) * $size;
		$is_whole = $samples == 0 && $count == 1 && $first == 0;
		last if $is_whole;
		push @rows, sprintf "\@%s\n  t*: %.0f: %.0f [0: 0]\n",
		    join('', map { sprintf ' 0x%x', $_ } $first + 1, @others), $samples, $samples * $period;
	}
	Talk::doubt("$path: a profile of processor time that is cut off or damaged at byte $at")
	    unless $is_whole;
	Talk::fail(1, "$path: a profile of processor time that holds no sample") unless @rows;
	my $out = join '', "heap_v2/0\n# jemalloc.kind=cpu\n", @rows, "\nMAPPED_LIBRARIES:\n",
	    $is_whole ? substr($text, $at) : '';
	$out .= "\n" unless $out =~ /\n\z/;
	return $out . sprintf "# end %d\n", length $out;
}
