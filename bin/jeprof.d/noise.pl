# Noise: how sure an estimate is. Each object was sampled by chance, with a probability that its
# size tells; so the number of samples of a stack and this probability tell the variance of its
# estimate, that of a binomial distribution. If the objects of a stack differ in size, variance()
# is an upper bound: the larger objects, which have most of the bytes, are sampled with a higher
# probability than one of mean size. That is so of profiles of this library, whose counts give the
# sum of estimates by each object's own size; those of other writers are estimated by the mean size,
# and where sizes differ much, their estimates may be off by more than the margin. The verbs that tell margins ask these functions; the page has
# the same in model.js. What people read is the margin: 95 of 100 intervals "estimate ± margin"
# hold the truth. JSON has the standard error, the root of the variance. Callers: Reduce, Labels,
# Since, Series, Top, Leaks, Frag, Page.
package Noise;

use constant WIDTH => 1.96; # standard errors in a margin of 95 %

# The variance, in bytes squared, of an estimate of $bytes that came from $samples samples, each
# taken with the probability $samples / $objects; $objects is an estimate too. Both estimates are
# negative for a base, which is subtracted. 0 if counts are exact, or without samples.
sub variance {
	my ($objects, $bytes, $samples) = @_;
	return 0 if $samples <= 0 || abs $objects <= $samples;
	return $bytes * $bytes / $samples * (1 - $samples / abs $objects);
}

# Half the width, in bytes, of the interval of a sum of estimates; $variance and $samples are sums
# too, and if one of the two is 0, so is the result. One sample is added to those seen, for objects
# that chance did not sample: without it intervals of few samples would be too narrow. So a margin
# is more than WIDTH times the standard error in JSON.
sub margin {
	my ($variance, $samples) = @_;
	return 0 if $variance <= 0 || $samples <= 0;
	return WIDTH * sqrt($variance * ($samples + 1) / $samples);
}

# A margin as text. Its ± is two bytes long and one column wide.
sub text {
	my ($margin, $option) = @_;
	return "\xc2\xb1" . Print::human($margin, $option);
}

# What text() returns, or another text, with blanks in front until it is $width characters wide; as
# it is if it is wider.
sub column {
	my ($width, $text) = @_;
	my $columns = length($text) - ($text =~ tr/\xc2//);
	return ' ' x ($width > $columns ? $width - $columns : 0) . $text;
}

# Whether chance alone can have made a change of bytes that has this margin; 0 if the margin is 0.
sub hides {
	my ($change, $margin) = @_;
	return $margin > 0 && abs $change < $margin ? 1 : 0;
}
