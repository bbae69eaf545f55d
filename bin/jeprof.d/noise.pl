# Noise: how sure an estimate is. Each object was sampled with a probability that its size tells, so
# the samples of a sum follow Poisson's law, and their number tells the variance: of a stack whose
# objects differ in size an upper bound of it, because the larger ones, which bring most of the bytes,
# are sampled more often than their mean. All verbs ask these functions; the page has the same in
# model.js. What people read is the margin: 95 of 100 intervals "estimate ± margin" hold the truth.
# JSON has the standard error. Callers: top, diff, leaks, frag, report.
package Noise;

use constant WIDTH => 1.96; # standard errors: 95 %

# Of an estimate of bytes that came from so many samples, each taken with the probability samples /
# objects.
sub variance {
	my ($objects, $bytes, $samples) = @_;
	return 0 if $samples <= 0 || abs $objects <= $samples;
	return $bytes * $bytes / $samples * (1 - $samples / abs $objects);
}

# Half the width of the interval of a sum of estimates. One sample more than were seen stands for
# those that chance withheld: without it intervals of few samples would be too narrow.
sub margin {
	my ($variance, $samples) = @_;
	return 0 if $variance <= 0 || $samples <= 0;
	return WIDTH * sqrt($variance * ($samples + 1) / $samples);
}

# The ± is two bytes long and one column wide.
sub text {
	my ($margin, $option) = @_;
	return "\xc2\xb1" . Print::human($margin, $option);
}

# The text at the right of a column so wide.
sub column {
	my ($width, $text) = @_;
	my $columns = length($text) - ($text =~ tr/\xc2//);
	return ' ' x ($width > $columns ? $width - $columns : 0) . $text;
}

# Can chance alone have made this change?
sub hides {
	my ($change, $margin) = @_;
	return $margin > 0 && abs $change < $margin ? 1 : 0;
}
